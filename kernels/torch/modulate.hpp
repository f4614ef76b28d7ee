// kernels/cpu/modulate.hpp as nodes of the autograd graph; ATen's operations for inputs that they do not
// support (another dtype, device or shape). One derivative in float32.
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
