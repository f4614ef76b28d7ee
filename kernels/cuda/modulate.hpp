// AdaLN's modulation: y = LayerNorm(x) * (1 + scale) + shift, without parameters of its own (Peebles and Xie
// 2023, arXiv 2212.09748, section 3.2). One block per row; the row is read once from memory and then from the
// cache; statistics in float32.
//
// All functions enqueue on `stream` and return the launch's error.
#pragma once
#include "kernels/cuda/rows.hpp"

namespace kinora::cuda {

// y [B, S, D] contiguous; mean and rstd [B, S].
cudaError_t modulate(const RowsShape&, float eps, RowsIn x, RowsIn scale, RowsIn shift, void* y, float* mean,
                     float* rstd, cudaStream_t stream);

// grad [B, S, D] -> grad_x [B, S, D] contiguous.
cudaError_t modulate_backward(const RowsShape&, RowsIn grad, RowsIn x, RowsIn scale, const float* mean,
                              const float* rstd, void* grad_x, cudaStream_t stream);

// Gradients of scale and shift; partial: room for two sums.
cudaError_t modulate_backward_sums(const RowsShape&, Broadcast over, RowsIn grad, RowsIn x, const float* mean,
                                   const float* rstd, float* partial, float* grad_scale, float* grad_shift,
                                   cudaStream_t stream);

}  // namespace kinora::cuda
