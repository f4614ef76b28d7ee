#include "core/torch/context/kv_cache_link.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

KvCacheLink::KvCacheLink(int64_t tokens) : Link(KINORA_LEVEL_CACHE), room_(tokens) {
  skip_inherited<KvCacheLink>();
}

int64_t KvCacheLink::tokens(uint32_t branch) const {
  const auto it = branches_.find(branch);
  return it == branches_.end() || !it->second.table.defined() ? 0 : it->second.table.size(1);
}

int64_t KvCacheLink::bytes() const {
  size_t n = 0;
  for (const auto& [number, b] : branches_)
    for (const auto& [name, kept] : b.attentions) n += kept.k.storage().nbytes() + kept.v.storage().nbytes();
  return static_cast<int64_t>(n);
}

// Runs once per forward, not per attention: on a GPU it waits for the device, and one table for all
// attentions needs only one visibility plan.
void KvCacheLink::step(Branch& b, const at::Tensor& table) {
  if (b.from.defined() && b.from.data_ptr() == table.data_ptr() && b.from.sizes() == table.sizes()) return;
  const auto index = table.select(2, KINORA_TOKEN_INDEX).to(at::kCPU);
  const auto real = (index[0] >= 0).nonzero().squeeze(1);
  if (real.numel() == 0) raise(KINORA_ERROR_INVALID, "KV cache: a forward has padding only");
  b.rows = real.numel() == index.size(1) ? at::Tensor() : real.to(table.device());
  const auto fresh = b.rows.defined() ? table.index_select(1, b.rows) : table;
  b.kept = 0;
  if (b.table.defined()) {
    const int64_t first = index[0].index_select(0, real).min().item<int64_t>();
    b.kept = (b.table[0].select(1, KINORA_TOKEN_INDEX) < first).sum().item<int64_t>();
  }
  if (b.kept > 0 && b.table.size(0) != fresh.size(0))
    raise(KINORA_ERROR_INVALID, "KV cache: tables of {} samples are kept, this forward has one of {}",
          b.table.size(0), fresh.size(0));
  b.table = b.kept > 0 ? at::cat({b.table.narrow(1, 0, b.kept), fresh}, 1) : fresh;
  b.from = table;
}

at::Tensor KvCacheLink::put(at::Tensor& all, int64_t kept, const at::Tensor& x) const {
  const int64_t n = kept + x.size(1);
  const bool fits = all.defined() && all.size(0) == x.size(0) && all.size(2) == x.size(2) &&
                    all.size(3) == x.size(3) && all.scalar_type() == x.scalar_type();
  if (kept > 0 && !fits)
    raise(KINORA_ERROR_INVALID, "KV cache: {} is kept, this forward adds {}; clear() it between two videos",
          c10::str(all.sizes()), c10::str(x.sizes()));
  if (!fits || all.size(1) < n) {
    const int64_t room = std::max({n, room_, fits ? 2 * all.size(1) : 0});
    auto larger = at::empty({x.size(0), room, x.size(2), x.size(3)}, x.options());
    if (kept > 0) larger.narrow(1, 0, kept).copy_(all.narrow(1, 0, kept));
    all = larger;
  }
  all.narrow(1, kept, x.size(1)).copy_(x);
  return all.narrow(1, 0, n);
}

at::Tensor KvCacheLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const kinora_attention& how) {
  const auto table = borrow<at::Tensor>(how.k_table);
  if (!how.kv_seq || !table.defined()) return next.attention(q, k, v, how);  // shared keys: text
  if (at::GradMode::is_enabled() && (k.requires_grad() || v.requires_grad()))
    raise(KINORA_ERROR_INVALID, "attention '{}': a KV cache is for passes without gradients", how.name);
  auto& b = branches_[pass().branch];
  step(b, table);
  auto& kept = b.attentions[how.name];
  if (kept.tokens < b.kept)
    raise(KINORA_ERROR_INVALID,
          "attention '{}': {} tokens are kept, {} precede this forward; clear() the KV cache", how.name,
          kept.tokens, b.kept);
  const auto real = [&](const at::Tensor& x) { return b.rows.defined() ? x.index_select(1, b.rows) : x; };
  const auto keys = put(kept.k, b.kept, real(k)), values = put(kept.v, b.kept, real(v));
  kept.tokens = keys.size(1);
  auto longer = how;
  longer.k_table = handle(b.table);
  return next.attention(q, keys, values, longer);
}

}  // namespace kinora::core
