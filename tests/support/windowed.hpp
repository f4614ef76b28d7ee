// Attention with a mask that is written out, to compare a cache with: query i sees key j, up to its own, if j
// is one of the first `pinned` or of the last `window` keys.
#pragma once
#include <cmath>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::test {

// q [B, S, heads, d], k, v [B, L, heads or a divisor, d], seen bool [S, L] -> [B, S, heads, d]
inline at::Tensor masked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   double scale, const at::Tensor& seen) {
  const auto repeated = [&](const at::Tensor& x) { return x.repeat_interleave(q.size(2) / x.size(2), 2); };
  const at::Tensor scores = at::matmul(q.transpose(1, 2) * scale, repeated(k).permute({0, 2, 3, 1}));
  return at::matmul(scores.masked_fill(~seen, -INFINITY).softmax(-1), repeated(v).transpose(1, 2))
      .transpose(1, 2);
}

// For one forward over all tokens, numbered as in one process.
class WindowedAttention final : public Link<at::Tensor> {
 public:
  WindowedAttention(int64_t pinned, int64_t window)
      : Link(KINORA_LEVEL_CACHE), pinned_(pinned), window_(window) {
    skip_inherited<WindowedAttention>();
  }
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    if (!how.kv_seq) return next.attention(q, k, v, how);  // text
    const at::Tensor i = at::arange(q.size(1)).unsqueeze(1), j = at::arange(k.size(1)).unsqueeze(0);
    return masked_attention(q, k, v, how.scale, (j <= i) & ((j < pinned_) | (j > i - window_)));
  }

 private:
  int64_t pinned_, window_;
};

}  // namespace kinora::test
