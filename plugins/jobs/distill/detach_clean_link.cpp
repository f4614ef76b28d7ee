#include "plugins/jobs/distill/detach_clean_link.hpp"

#include <ATen/ATen.h>

namespace kinora::core {

at::Tensor DetachCleanLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const kinora_attention& how) {
  if (!how.kv_seq || !how.k_table || pass().no_grad) return next.attention(q, k, v, how);
  const at::Tensor table = borrow<at::Tensor>(how.k_table);
  const at::Tensor clean = (table.select(2, KINORA_TOKEN_NOISY) == 0).unsqueeze(-1).unsqueeze(-1);
  return next.attention(q, at::where(clean, k.detach(), k), at::where(clean, v.detach(), v), how);
}

}  // namespace kinora::core
