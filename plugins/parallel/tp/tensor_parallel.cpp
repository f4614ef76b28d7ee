// Tensor parallelism (Shoeybi et al. 2019, arXiv 1909.08053) with sequence parallelism (Korthikanti et al.
// 2022, arXiv 2205.05198): the outputs of COLUMN weights and the inputs of ROW weights are split, and between
// a ROW and the next COLUMN each rank has its part of the tokens, so norms, modulation, dropout and residuals
// are computed once. Norms over a head's channels need no transfer; for norms over all heads, all_reduce()
// sums their statistic.
//
// A COLUMN linear gathers its tokens; a ROW linear sums its result and keeps this rank's tokens. COLUMN
// linears of one tensor (q, k and v; gate and up) share one gather and its gradient. For the backward a rank
// keeps only its own tokens and gathers all of them once more (regather.hpp), while the product
// of the following ROW linear is differentiated. Text and conditions (seq 0) enter a COLUMN without a
// transfer: every rank has them, and their gradients are partial sums like all others.
//
// Bytes that a rank sends, with T ranks, N tokens with padding, e bytes per element, forward and
// backward each:
//   (T - 1) B (N / T) D e   for each gather: a tensor of width D that COLUMN linears read
//   (T - 1) B (N / T) D e   for each ROW linear with D outputs (e: 4 where a precision keeps wide sums)
//   a sum of B N statistics for each all_reduce(), and of the result for a ROW linear of shared tensors
//   (T - 1) B (N / T) D e   for gather(), forward only
//   (T - 1) B (N / T) D e   for each lookup in a VOCAB table, and 8 bytes per token for its ids
// and in the backward once more
//   (T - 1) B (N / T) D e   for each gather whose result a weight's gradient needs: not if the weights are
//   frozen
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"
#include "kinora/token_split.hpp"
#include "kinora/transfers.hpp"
#include "plugins/parallel/tp/regather.hpp"

namespace kinora {
namespace {

// Whole units of each fused part: a number of ranks must divide all of them to split the parameter.
int64_t units_of(const kinora_param_spec& s) {
  const int64_t size = s.shape[s.role == KINORA_ROLE_ROW ? 1 : 0], quantum = std::max<int64_t>(s.quantum, 1),
                parts = std::max<int64_t>(s.n_parts, 1);
  int64_t units = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t part = s.n_parts > 1 && s.parts ? s.parts[i] : size / parts;
    units = std::gcd(units, part % quantum ? 1 : part / quantum);
  }
  return units;
}

class TensorLink final : public Link<at::Tensor> {
 public:
  explicit TensorLink(Group<at::Tensor> group);

  kinora_param parameter(const kinora_param_spec& spec) override;
  // Throws Error(KINORA_ERROR_INVALID) if a parameter cannot be split this way.
  void declared() override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  at::Tensor all_reduce(const at::Tensor& x) override;
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor gather(const at::Tensor& x, kinora_seq seq) override;
  at::Tensor table(kinora_seq seq, Place place) override;
  at::Tensor lookup(const at::Tensor& ids, kinora_param p, kinora_seq seq) override;

 private:
  struct Gathered {
    at::Tensor own, all;
    int64_t version;
    bool with_gradient;
    std::shared_ptr<Regather> kept;  // with gradient
  };
  using Kept = std::vector<std::shared_ptr<Regather>>;
  Gathered all_tokens(const at::Tensor& x);
  // The forward has read the gathered tokens: from now on only the backward needs them.
  Kept let_go();
  at::Tensor column(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq);
  at::Tensor row(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq);

  Group<at::Tensor> group_;
  std::set<kinora_param> columns_, rows_;
  std::map<kinora_param, int64_t> vocabularies_;  // rows of each rank
  std::map<kinora_seq, at::Tensor> tables_;       // of all tokens of the group
  std::vector<Gathered> gathered_;                // since the last ROW linear
  // The greatest number of ranks by which all parameters can be split. If that is smaller than the group, the
  // parameter with the fewest whole units.
  int64_t units_ = 0, fewest_ = 0;
  std::string scarcest_;
};

TensorLink::TensorLink(Group<at::Tensor> group) : Link(KINORA_LEVEL_TENSOR), group_(group) {
  skip_inherited<TensorLink>();
}

kinora_param TensorLink::parameter(const kinora_param_spec& given) {
  if (given.role == KINORA_ROLE_VOCAB && given.ndim > 0 && given.shape[0] % group_.size() == 0) {
    kinora_param_spec spec = given;
    spec.shard = group_.rank();
    spec.shards = group_.size();
    const kinora_param p = next.parameter(spec);
    vocabularies_[p] = given.shape[0] / group_.size();
    return p;
  }
  const bool column = given.role == KINORA_ROLE_COLUMN, row = given.role == KINORA_ROLE_ROW;
  if ((!column && !row) || given.ndim <= (row ? 1U : 0U)) return next.parameter(given);
  kinora_param_spec spec = given;
  const int64_t units = units_of(given);
  units_ = std::gcd(units_, units);
  if (units % group_.size() == 0) {
    spec.shard = group_.rank();
    spec.shards = group_.size();
  } else if (scarcest_.empty() ||
             units < fewest_) {  // declared() reports it, once the possible sizes are known
    fewest_ = units;
    scarcest_ = given.name;
  }
  const kinora_param p = next.parameter(spec);
  (column ? columns_ : rows_).insert(p);
  return p;
}

void TensorLink::declared() {
  if (units_ % group_.size() == 0) return;
  int64_t most = group_.size();
  while (units_ % most) --most;
  throw Error(KINORA_ERROR_INVALID,
              "tp: size = " + std::to_string(group_.size()) +
                  " must divide the heads (of keys too) and the MLP's channels; parameter '" + scarcest_ +
                  "' can be cut into " + std::to_string(fewest_) +
                  " at most; use size = " + std::to_string(most));
}

TensorLink::Gathered TensorLink::all_tokens(const at::Tensor& x) {
  const bool gradient = at::GradMode::is_enabled();
  for (const Gathered& g : gathered_)
    if (g.own.is_same(x) && g.version == x._version() && g.with_gradient == gradient) return g;
  const at::Tensor all = gathered(group_, x, 1);
  gathered_.push_back({x, all, x._version(), gradient, {}});
  if (gradient) gathered_.back().kept = std::make_shared<Regather>(group_, x, all);
  return gathered_.back();
}

TensorLink::Kept TensorLink::let_go() {
  Kept out;
  for (const Gathered& g : gathered_)
    if (g.kept) out.push_back(g.kept);
  for (const auto& kept : out) kept->empty();
  gathered_.clear();
  return out;
}

at::Tensor TensorLink::column(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const Gathered in = all_tokens(x);
  const at::Tensor y = next.linear(in.all, w, b, seq);
  if (y.requires_grad()) y.register_hook([kept = in.kept](const at::Tensor&) { kept->finish(); });
  return y;
}

at::Tensor TensorLink::row(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const Kept read = let_go();
  const at::Tensor part = next.linear(x, w, 0, seq);  // may be wider than x: summed first, converted after
  // The input of the preceding COLUMN linears is gathered while this product is differentiated.
  if (part.requires_grad())
    part.register_hook([read](const at::Tensor&) {
      for (const auto& kept : read) kept->start();
    });
  at::Tensor y = seq ? scattered_sum(group_, part, 1) : summed(group_, part);
  if (b) y = y + head.value(b).to(y.scalar_type());
  return y.to(x.scalar_type());
}

at::Tensor TensorLink::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  if (seq && columns_.count(w)) return column(x, w, b, seq);
  return rows_.count(w) ? row(x, w, b, seq) : next.linear(x, w, b, seq);
}

at::Tensor TensorLink::all_reduce(const at::Tensor& x) { return summed(group_, x); }

at::Tensor TensorLink::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  const int64_t T = group_.size(), padding = (T - x.size(1) % T) % T;
  const at::Tensor table = padded_table(borrow<at::Tensor>(spec.table), padding);
  const int64_t each = table.size(1) / T, first = group_.rank() * each;
  const at::Tensor mine = table.narrow(1, first, each),
                   tokens = (padding ? at::constant_pad_nd(x, {0, 0, 0, padding}) : x).narrow(1, first, each);
  kinora_seq_spec local = spec;
  local.table = handle(mine);
  const at::Tensor out = next.sequence(tokens, local, seq);
  constexpr size_t most = 256;  // as many geometries as the base caches
  if (tables_.size() == most && !tables_.count(seq)) tables_.erase(tables_.begin());
  tables_[seq] = table;
  return out;
}

at::Tensor TensorLink::gather(const at::Tensor& x, kinora_seq seq) {
  let_go();
  return shared(group_, next.gather(x, seq), 1);
}

at::Tensor TensorLink::table(kinora_seq seq, Place place) {
  if (place == Place::stream) return next.table(seq, place);
  const auto it = tables_.find(seq);
  if (it == tables_.end())
    throw Error(KINORA_ERROR_INVALID, "tp: sequence " + std::to_string(seq) + " is not known in this run");
  return it->second;
}

// Each rank looks up its own rows for all tokens of the group, and zeros for the others.
at::Tensor TensorLink::lookup(const at::Tensor& ids, kinora_param p, kinora_seq seq) {
  const auto it = vocabularies_.find(p);
  if (it == vocabularies_.end()) return next.lookup(ids, p, seq);
  const at::Tensor own = (seq ? group_.gather(ids, 1) : ids) - group_.rank() * it->second,
                   elsewhere = (own < 0) | (own >= it->second);
  const at::Tensor part =
      next.lookup(own.masked_fill(elsewhere, 0), p, seq).masked_fill(elsewhere.unsqueeze(-1), 0);
  return seq ? scattered_sum(group_, part, 1) : summed(group_, part);
}

}  // namespace

class TensorParallel final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("tp").help(
        "tensor parallelism with sequence parallelism: some heads and channels of every layer on each rank, "
        "and some tokens between the layers; size divides the heads, of keys too, and the MLP's channels");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a layer, best inside a node; 0: all remaining ranks");
  }
  TensorParallel(const Options&, const Mesh<at::Tensor>& mesh) {
    const auto group = mesh.group("tp");
    if (group.size() > 1) link_.emplace(group);
  }
  const char* axis() const override { return "tp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<TensorLink> link_;
};
KINORA_COMPONENT(TensorParallel)
KINORA_PLUGIN(TensorParallel)

}  // namespace kinora
