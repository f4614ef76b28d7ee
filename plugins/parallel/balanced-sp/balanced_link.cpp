#include "plugins/parallel/balanced-sp/balanced_link.hpp"

#include <algorithm>

#include "kinora/head_exchange.hpp"
#include "kinora/plugin.hpp"

namespace kinora {

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
  if (!table.select(2, KINORA_TOKEN_STREAM).any().item<bool>()) {
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
    throw Error(KINORA_UNSUPPORTED, "balanced-sp: attention '" + std::string(how.name ? how.name : "") +
                                        "' has shared queries over split keys; give the queries a sequence");
  const HeadExchange by(group_, q.size(2), k.size(2));
  if (const auto told = by.told(); !told.empty() && told_.insert(told).second)
    log(Log::info, "balanced-sp: " + told);
  return attend_by_heads(
      by, q, k, v, how, layout(how.q_seq).table, layout(how.kv_seq).table,
      [this](const at::Tensor& q_all, const at::Tensor& k_all, const at::Tensor& v_all,
             const kinora_attention& of_all) { return next.attention(q_all, k_all, v_all, of_all); });
}

}  // namespace kinora
