// Balanced sequence parallelism for teacher forcing (LongLive 2.0): a rank owns the clean and the noisy
// latents of the same time span (pairs.hpp), so that every rank has the same number of tokens with loss and
// encodes only its own span. Attention works as in Ulysses: the all-to-all joins the ranks' tokens in rank
// order, clean and noisy alternating, and the tables are in that order too. So the run's rule makes its mask
// there and no activation is ever permuted; positions are those of the tables, for the whole video.
//
// Bytes that a rank sends: those of head_exchange.hpp for each attention, forward and backward, and
// (P - 1) B L C e of the output in the forward, with L tokens per rank and C channels of an output token.
#include <algorithm>
#include <list>
#include <optional>
#include <set>
#include <string>

#include "kinora/head_exchange.hpp"
#include "kinora/plugin.hpp"
#include "kinora/token_split.hpp"
#include "plugins/parallel/balanced-sp/pairs.hpp"

namespace kinora {
namespace {

class BalancedLink final : public TokenSplit {
 public:
  // naive: equal runs of the clean sequence followed by the noisy one, for comparison.
  BalancedLink(Group<at::Tensor> group, int64_t multiple, bool naive);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 protected:
  at::Tensor order(const at::Tensor&) const override { return known_.front().owners.order; }
  int64_t padding_of(int64_t) const override { return known_.front().owners.padding; }

 private:
  // The split of one table of the root, which keeps one tensor for each geometry.
  struct CachedSplit {
    at::Tensor table;
    Owners owners;
  };
  void know(const at::Tensor& table);
  // Logs the work of the ranks; warns once if there is nothing to balance.
  void tell(const at::Tensor& table);

  bool naive_;
  std::list<CachedSplit> known_;  // latest first
  std::set<std::string> told_;
};

BalancedLink::BalancedLink(Group<at::Tensor> group, int64_t multiple, bool naive)
    : TokenSplit(group, multiple), naive_(naive) {
  skip_inherited<BalancedLink>();
}

void BalancedLink::know(const at::Tensor& table) {
  for (auto it = known_.begin(); it != known_.end(); ++it)
    if (it->table.data_ptr() == table.data_ptr() && it->table.sizes() == table.sizes()) {
      known_.splice(known_.begin(), known_, it);
      return;
    }
  constexpr size_t most = 64;  // as many geometries as the root caches
  if (known_.size() == most) known_.pop_back();
  known_.push_front({table, naive_ ? own_runs(table, group_.size(), multiple_)
                                   : own_pairs(table, group_.size(), multiple_)});
  const Owners& owners = known_.front().owners;
  if (group_.rank() == 0) tell(padded_table(table, owners.padding).index_select(1, owners.order));
}

void BalancedLink::tell(const at::Tensor& table) {
  if (!table.select(2, KINORA_TOKEN_NOISY).any().item<bool>()) {
    const char* vain = "no frame has a clean and a noisy copy to balance: it does what cp-ulysses does";
    if (told_.insert(vain).second) log(Log::warn, std::string("balanced-sp: ") + vain);
    return;
  }
  const auto loads = loads_of(table, group_.size());
  const auto range = [&](int64_t Load::*what) {
    const auto [least, most] = std::minmax_element(
        loads.begin(), loads.end(), [&](const Load& a, const Load& b) { return a.*what < b.*what; });
    return std::to_string((*least).*what) + " to " + std::to_string((*most).*what);
  };
  log(Log::info, "balanced-sp: " + std::to_string(loads.size()) + " ranks have " + range(&Load::tokens) +
                     " tokens, " + range(&Load::loss_tokens) + " with loss, of " + range(&Load::frames) +
                     " frames");
}

at::Tensor BalancedLink::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  know(borrow<at::Tensor>(spec.table));
  return TokenSplit::sequence(x, spec, seq);
}

at::Tensor BalancedLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const kinora_attention& how) {
  if (!how.kv_seq) return next.attention(q, k, v, how);
  if (!how.q_seq)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "balanced-sp: attention '" + std::string(how.name ? how.name : "") +
                    "' has shared queries over split keys; give the queries a sequence");
  const HeadExchange by(group_, q.size(2), k.size(2));
  if (const auto told = by.told(); !told.empty() && told_.insert(told).second)
    log(Log::info, "balanced-sp: " + told);
  return attend_by_heads(
      by, q, k, v, how, layout(how.q_seq).table, layout(how.kv_seq).table,
      [this](const at::Tensor& q_all, const at::Tensor& k_all, const at::Tensor& v_all,
             const kinora_attention& of_all) { return next.attention(q_all, k_all, v_all, of_all); });
}

}  // namespace

class BalancedSp final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
    std::string layout = "balanced";
  };
  static void describe(Describe<Options>& d) {
    d.name("balanced-sp")
        .help(
            "sequence parallelism for teacher forcing: the clean and the noisy tokens of one time span on "
            "one "
            "rank, heads exchanged for attention");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a sequence; 0: all remaining ranks");
    d.option("layout", &Options::layout)
        .choices({"balanced", "naive"})
        .help(
            "split of the tokens; naive: the clean and then the noisy sequence in equal runs, so that some "
            "ranks have no loss");
  }
  BalancedSp(const Options& o, const Mesh<at::Tensor>& mesh) {
    if (const auto group = mesh.group("cp"); group.size() > 1)
      link_.emplace(group, mesh.group("tp").size(), o.layout == "naive");
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<BalancedLink> link_;  // none on one rank
};
KINORA_COMPONENT(BalancedSp)
KINORA_PLUGIN(BalancedSp)

}  // namespace kinora
