// Compiled with -mavx2 -mfma.
#include "kernels/cpu/attention_table.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#define KINORA_LANES 8
#define KINORA_TILE 2  // 12 registers of sums, 2 of the right factor, 1 of the left
#include "kernels/cpu/attention_blocks.inc"

namespace kinora::attention_detail {
const AttentionKernels* avx2_attention() {
  static constexpr AttentionKernels kKernels = {forward, backward};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernels : nullptr;
}
}  // namespace kinora::attention_detail
#else
namespace kinora::attention_detail {
const AttentionKernels* avx2_attention() { return nullptr; }
}  // namespace kinora::attention_detail
#endif
