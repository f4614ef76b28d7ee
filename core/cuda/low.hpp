// Matrices in few bits for the table of kinora/abi/cuda.h, by kernels/cuda/fp4.hpp and fp8.hpp. Checks the
// tensors and enqueues on the current stream of x's device; errors as in kernels.hpp.
#pragma once
#include <ATen/core/Tensor.h>

#include "kinora/abi/cuda.h"

namespace kinora::core {

void low_amax_on_gpu(const kinora_cuda_low&, const at::Tensor& x, const at::Tensor& amax);
// global: undefined where the format has none.
void low_quantize_on_gpu(const kinora_cuda_low&, const at::Tensor& x, const at::Tensor& amax,
                         const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& global);
void low_dequantize_on_gpu(const kinora_cuda_low&, const at::Tensor& codes, const at::Tensor& scales,
                           const at::Tensor& global, const at::Tensor& x);

}  // namespace kinora::core
