// GELU of x + bias as a node of the autograd graph: kernels/cpu/gelu.hpp for float32 on the processor, with a
// bias gpu.hpp for float32 and bfloat16 on a GPU, ATen's operations for other inputs. The kernels have one
// derivative.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/cpu/gelu.hpp"

namespace kinora {

// GELU of x + bias. x [..., D], bias [D], or undefined.
at::Tensor gelu(const at::Tensor& x, const at::Tensor& bias = {}, Gelu form = Gelu::exact);

}  // namespace kinora
