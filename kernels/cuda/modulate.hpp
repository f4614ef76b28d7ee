// AdaLN's modulation: y = LayerNorm(x) * (1 + scale) + shift, without parameters of its own (Peebles and Xie
// 2023, arXiv 2212.09748, section 3.2). One block per row; the row is read once from memory and then from the
// cache; statistics in float32. The gradients of scale and shift are summed in an order that depends only on
// the shape.
//
// All functions enqueue on `stream` and return the launch's error.
#pragma once
#include <cstdint>
#include <cuda_runtime_api.h>

namespace kinora::cuda {

enum class Number : int32_t { float32, bfloat16 };

// [B, S, D] with D contiguous; strides in elements, 0 along a broadcast dimension.
struct RowsIn {
  const void* data;
  int64_t sample, token;
};

struct ModulateShape {
  int64_t samples, tokens, width;
  float eps;
  Number number;  // dtype of x, scale, shift and their gradients
};

// y [B, S, D] contiguous; mean and rstd [B, S].
cudaError_t modulate(const ModulateShape&, RowsIn x, RowsIn scale, RowsIn shift, void* y, float* mean,
                     float* rstd, cudaStream_t stream);

// grad [B, S, D] -> grad_x [B, S, D] contiguous.
cudaError_t modulate_backward(const ModulateShape&, RowsIn grad, RowsIn x, RowsIn scale, const float* mean,
                              const float* rstd, void* grad_x, cudaStream_t stream);

// Gradients of scale and shift, summed over their broadcast dimensions: [B or 1, S or 1, D] contiguous,
// float32. partial: room for modulate_partial() numbers.
struct Broadcast {
  bool samples, tokens;
};
int64_t modulate_partial(const ModulateShape&, Broadcast over);
cudaError_t modulate_backward_sums(const ModulateShape&, Broadcast over, RowsIn grad, RowsIn x,
                                   const float* mean, const float* rstd, float* partial, float* grad_scale,
                                   float* grad_shift, cudaStream_t stream);

}  // namespace kinora::cuda
