// RMSNorm of each head and rotary positions in one pass over queries or keys, read in place from the
// projection (Su et al. 2021, arXiv 2104.09864); either of them may be omitted. One warp per head's row;
// statistics and angles in float32. The gradient of the weight is summed in an order that depends only on the
// shape.
//
// All functions enqueue on `stream` and return the launch's error.
#pragma once
#include "kernels/cuda/rows.hpp"

namespace kinora::cuda {

// [B, S, G, n, d]: n heads of each of G groups, with d contiguous; strides in elements.
template <class Data>
struct Heads {
  Data* data;
  int64_t sample, token, group, head;
};
using HeadsIn = Heads<const void>;
using HeadsOut = Heads<void>;

// cos and sin [1 or B, S, d / 2], S and d / 2 contiguous; sample: stride, 0 if all samples share them. Null:
// no rotation.
struct Turns {
  const float *cos, *sin;
  int64_t sample;
};

// B, S, G, n; width: d, even, at most kMostHeadWidth. B * S * G * n is below 2^31.
struct NormRopeShape {
  int64_t samples, tokens, groups, heads, width;
  float eps;
  Number number;  // dtype of x, weight and their gradients
  bool halves;    // pairs (i, i + d / 2), else (2 i, 2 i + 1)
};
constexpr int64_t kMostHeadWidth = 512;

// weight null: no norm, and rstd is not written. y [B, S, G, n, d] contiguous; rstd [B, S, G, n].
cudaError_t norm_rope(const NormRopeShape&, HeadsIn x, const void* weight, Turns turns, void* y, float* rstd,
                      cudaStream_t stream);

// grad [B, S, G, n, d] -> grad_x, grad_weight [d] float32. partial: room for norm_rope_partial() numbers.
// Without a weight x, rstd, partial and grad_weight are not used.
int64_t norm_rope_partial(const NormRopeShape&);
cudaError_t norm_rope_backward(const NormRopeShape&, HeadsIn grad, HeadsIn x, const void* weight, Turns turns,
                               const float* rstd, HeadsOut grad_x, float* partial, float* grad_weight,
                               cudaStream_t stream);

}  // namespace kinora::cuda
