// The gated residual of adaptive layer norm: out = x + gate * y (Peebles and Xie 2023, arXiv 2212.09748,
// section 3.2). One block per row, arithmetic in float32. The gradient of x is that of out.
//
// All functions enqueue on `stream` and return the launch's error.
#pragma once
#include "kernels/cuda/rows.hpp"

namespace kinora::cuda {

// out [B, S, D] contiguous.
cudaError_t gated(const RowsShape&, RowsIn x, RowsIn y, RowsIn gate, void* out, cudaStream_t stream);

// grad [B, S, D] -> grad_y [B, S, D] contiguous.
cudaError_t gated_backward(const RowsShape&, RowsIn grad, RowsIn gate, void* grad_y, cudaStream_t stream);

// Gradient of the gate; partial: room for one sum.
cudaError_t gated_backward_sum(const RowsShape&, Broadcast over, RowsIn grad, RowsIn y, float* partial,
                               float* grad_gate, cudaStream_t stream);

}  // namespace kinora::cuda
