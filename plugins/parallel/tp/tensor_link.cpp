#include "plugins/parallel/tp/tensor_link.hpp"

#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kinora/token_split.hpp"

namespace kinora {

namespace {

// Whole units of each fused part: a number of ranks must divide all of them to split the parameter.
int64_t units_of(const kinora_param_spec& s) {
  const int64_t size = s.shape[s.role == KINORA_ROW ? 1 : 0], quantum = std::max<int64_t>(s.quantum, 1),
                parts = std::max<int64_t>(s.n_parts, 1);
  int64_t units = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t part = s.n_parts > 1 && s.parts ? s.parts[i] : size / parts;
    units = std::gcd(units, part % quantum ? 1 : part / quantum);
  }
  return units;
}

}  // namespace

TensorLink::TensorLink(Group<at::Tensor> group) : Link(KINORA_LEVEL_TENSOR), group_(group) {
  skip_inherited<TensorLink>();
}

kinora_param TensorLink::parameter(const kinora_param_spec& given) {
  const bool column = given.role == KINORA_COLUMN, row = given.role == KINORA_ROW;
  if ((!column && !row) || given.ndim <= (row ? 1U : 0U)) return next.parameter(given);
  kinora_param_spec spec = given;
  const int64_t units = units_of(given);
  units_ = std::gcd(units_, units);
  if (units % group_.size() == 0) {
    spec.shard = group_.rank();
    spec.shards = group_.size();
  } else if (scarcest_.empty() || units < fewest_) {  // declared() reports it, once the possible sizes are known
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
  throw Error(KINORA_INVALID, "tp: size = " + std::to_string(group_.size()) +
                                  " must divide the heads (of keys too) and the MLP's channels; parameter '" +
                                  scarcest_ + "' can be cut into " + std::to_string(fewest_) +
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

at::Tensor TensorLink::total(const at::Tensor& x) { return summed(group_, x); }

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

at::Tensor TensorLink::leave(const at::Tensor& x, kinora_seq seq) {
  let_go();
  return shared(group_, next.leave(x, seq), 1);
}

at::Tensor TensorLink::table(kinora_seq seq, Place place) {
  if (place == Place::stream) return next.table(seq, place);
  const auto it = tables_.find(seq);
  if (it == tables_.end())
    throw Error(KINORA_INVALID, "tp: sequence " + std::to_string(seq) + " is not known in this run");
  return it->second;
}

}  // namespace kinora
