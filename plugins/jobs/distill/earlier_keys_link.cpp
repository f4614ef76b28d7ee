#include "plugins/jobs/distill/earlier_keys_link.hpp"

#include <ATen/ATen.h>

namespace kinora::core {
namespace {

// The rows of a table with stored tokens first, [1 or B, tokens, columns], that are before the forward's own.
at::Tensor rows_before(const at::Tensor& own, const at::Tensor& all) {
  const at::Tensor index = own[0].select(1, KINORA_TOKEN_INDEX), real = index.masked_select(index >= 0);
  const at::Tensor is_earlier = all[0].select(1, KINORA_TOKEN_INDEX) < real.min();
  return all.narrow(1, 0, is_earlier.sum().item<int64_t>()).clone();
}

}  // namespace

void EarlierKeysLink::clear() {
  earlier_.clear();
  noted_ = {};
  joined_ = {};
}

void EarlierKeysLink::keep(const at::Tensor& k, const at::Tensor& v, const kinora_attention& how) {
  const at::Tensor all = borrow<at::Tensor>(how.k_table);
  if (!noted_.from.defined() || !noted_.from.is_same(all))
    noted_ = {all, rows_before(borrow<at::Tensor>(how.q_table), all)};
  const int64_t tokens = noted_.made.size(1);
  if (tokens == 0) return;
  const auto copy = [&](const at::Tensor& x) { return x.narrow(1, 0, tokens).clone(); };
  earlier_[how.name] = {copy(k), copy(v), noted_.made};
}

at::Tensor EarlierKeysLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const kinora_attention& how) {
  const kinora_pass now = pass();
  if (!how.kv_seq || !how.k_table) return next.attention(q, k, v, how);
  if (now.session != 0) {
    if (notes_ && now.read_only != 0) keep(k, v, how);
    return next.attention(q, k, v, how);
  }
  const auto found = now.no_grad != 0 ? earlier_.end() : earlier_.find(how.name);
  if (found == earlier_.end()) return next.attention(q, k, v, how);
  const Earlier& earlier = found->second;
  const at::Tensor own = borrow<at::Tensor>(how.k_table);
  if (!joined_.from.defined() || !joined_.from.is_same(own))
    joined_ = {own, at::cat({earlier.table, own}, 1)};
  kinora_attention longer = how;
  longer.k_table = handle(joined_.made);
  return next.attention(q, at::cat({earlier.k, k}, 1), at::cat({earlier.v, v}, 1), longer);
}

int64_t EarlierKeysLink::bytes() const {
  int64_t out = 0;
  for (const auto& [name, one] : earlier_) out += static_cast<int64_t>(one.k.nbytes() + one.v.nbytes());
  return out;
}

}  // namespace kinora::core
