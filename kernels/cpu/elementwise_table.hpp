// The two builds of elementwise.inc.
#pragma once
#include "kernels/cpu/gelu.hpp"
#include "kernels/cpu/modulate.hpp"
#include "kernels/cpu/norm_rope.hpp"

namespace kinora::elementwise_detail {

struct ElementwiseKernels {
  decltype(&kinora::modulate_forward) modulate_forward;
  decltype(&kinora::modulate_backward) modulate_backward;
  decltype(&kinora::gate_forward) gate_forward;
  decltype(&kinora::gate_backward) gate_backward;
  decltype(&kinora::sum_rows) sum_rows;
  decltype(&kinora::norm_rope_forward) norm_rope_forward;
  decltype(&kinora::norm_rope_backward) norm_rope_backward;
  decltype(&kinora::gelu_forward) gelu_forward;
  decltype(&kinora::gelu_backward) gelu_backward;
};
// Null if the compiler or the processor does not support them.
const ElementwiseKernels* avx2_elementwise();
const ElementwiseKernels* avx512_elementwise();

}  // namespace kinora::elementwise_detail
