// The two builds of attention_blocks.inc.
#pragma once
#include "kernels/cpu/attention.hpp"

namespace kinora::attention_detail {

struct AttentionKernels {
  decltype(&kinora::attention_forward) forward;
  decltype(&kinora::attention_backward) backward;
};
// Null if the compiler or the processor does not support them.
const AttentionKernels* avx2_attention();
const AttentionKernels* avx512_attention();

}  // namespace kinora::attention_detail
