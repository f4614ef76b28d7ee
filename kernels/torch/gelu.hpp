// kernels/cpu/gelu.hpp as a node of the autograd graph; ATen's operations for inputs that it does not support
// (another dtype or device). One derivative in float32.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/cpu/gelu.hpp"

namespace kinora {

// GELU of x + bias. x [..., D], bias [D], or undefined.
at::Tensor gelu(const at::Tensor& x, const at::Tensor& bias = {}, Gelu form = Gelu::exact);

}  // namespace kinora
