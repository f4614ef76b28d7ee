// GELU of x + bias (Hendrycks and Gimpel 2016, arXiv 1606.08415), exact or with the paper's tanh. One block
// per row, arithmetic in float32.
//
// All functions enqueue on `stream` and return the launch's error.
#pragma once
#include "kernels/cuda/rows.hpp"

namespace kinora::cuda {

enum class GeluForm : int32_t { exact, tanh };

// x [1, rows, D], bias [D] of the same dtype -> y contiguous.
cudaError_t gelu(const RowsShape&, GeluForm, RowsIn x, const void* bias, void* y, cudaStream_t stream);

// grad -> grad_x contiguous.
cudaError_t gelu_backward(const RowsShape&, GeluForm, RowsIn grad, RowsIn x, const void* bias, void* grad_x,
                          cudaStream_t stream);

// Gradient of the bias; partial: room for one sum over all rows.
cudaError_t gelu_backward_sum(const RowsShape&, GeluForm, RowsIn grad, RowsIn x, const void* bias,
                              float* partial, float* grad_bias, cudaStream_t stream);

}  // namespace kinora::cuda
