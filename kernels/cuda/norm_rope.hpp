// RMSNorm of each head and rotary positions in one pass over queries or keys, read in place from the
// projection (Su et al. 2021, arXiv 2104.09864). One warp per head's row; statistics and angles in float32.
// The gradient of the weight is summed in an order that depends only on the shape.
//
// All functions enqueue on `stream` and return the launch's error.
#pragma once
#include "kernels/cuda/modulate.hpp"

namespace kinora::cuda {

// [B, S, H, d] with d contiguous; strides in elements.
struct HeadsIn {
  const void* data;
  int64_t sample, token, head;
};

// cos and sin [1 or B, S, d / 2], S and d / 2 contiguous; sample: stride, 0 if all samples share them. Null:
// no rotation.
struct Turns {
  const float *cos, *sin;
  int64_t sample;
};

struct NormRopeShape {
  int64_t samples, tokens, heads, width;  // width: d, even, at most kMostHeadWidth
  float eps;
  Number number;  // dtype of x, weight and their gradients
  bool halves;    // pairs (i, i + d / 2), else (2 i, 2 i + 1)
};
constexpr int64_t kMostHeadWidth = 512;

// y [B, S, H, d] contiguous; rstd [B, S, H].
cudaError_t norm_rope(const NormRopeShape&, HeadsIn x, const void* weight, Turns turns, void* y, float* rstd,
                      cudaStream_t stream);

// grad [B, S, H, d] -> grad_x contiguous, grad_weight [d] float32. partial: room for norm_rope_partial()
// numbers.
int64_t norm_rope_partial(const NormRopeShape&);
cudaError_t norm_rope_backward(const NormRopeShape&, HeadsIn grad, HeadsIn x, const void* weight, Turns turns,
                               const float* rstd, void* grad_x, float* partial, float* grad_weight,
                               cudaStream_t stream);

}  // namespace kinora::cuda
