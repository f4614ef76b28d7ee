// Adaptive layer norm (Peebles and Xie 2023, arXiv 2212.09748, section 3.2; of low rank: Gupta et al. 2023,
// arXiv 2312.06662): the noise level gives each frame a shift, a scale and a gate per channel.
//
// B batch, S local tokens, R rows of conditioning (1, one per frame or one per token), D width.
#pragma once
#include "plugins/models/dit/declare.hpp"

namespace kinora::dit {

// parts * D numbers per row, initially zero, so that a block starts as the identity.
class AdaLn {
 public:
  // rank 0: one full linear layer.
  AdaLn(const Declare& declare, int64_t width, int64_t rank, int64_t parts);
  // active [B, R, D]: silu of the embedding. -> `parts` tensors [B, R, D]
  std::vector<at::Tensor> operator()(const Ctx& ctx, const at::Tensor& active) const;

 private:
  int64_t parts_;
  kinora_param down_ = 0, up_;
};

// The modulation of one sub-block, as its tokens' rows: each [B, S, D], or [B, 1, D] if R is 1.
struct Rows {
  at::Tensor shift, scale, gate;
};
// first: index of its shift in `parts`; a scale and, if there is one, a gate follow. row: Shared::row() of
// the tokens' layout.
Rows rows_of(const std::vector<at::Tensor>& parts, size_t first, const at::Tensor& row);

// LayerNorm(x) * (1 + scale) + shift, the norm without parameters, statistics in at least float32.
at::Tensor modulate(const at::Tensor& x, const Rows& rows);
// x + gate * y
at::Tensor gated(const at::Tensor& x, const at::Tensor& y, const Rows& rows);

}  // namespace kinora::dit
