// Adaptive layer norm and the gated residual as nodes of the autograd graph: kernels/cpu/modulate.hpp for
// float32 on the processor, gpu.hpp for float32 and bfloat16 on a GPU, ATen's operations for other inputs.
// The kernels have one derivative.
//
// x, y [B, S, D]; shift, scale, gate [1 or B, 1 or S, D].
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora {

// LayerNorm(x) * (1 + scale) + shift, the norm without parameters.
at::Tensor modulate(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale, double epsilon);
// x + gate * y
at::Tensor gated(const at::Tensor& x, const at::Tensor& y, const at::Tensor& gate);

}  // namespace kinora
