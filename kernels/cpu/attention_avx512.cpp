// Compiled with -mavx512f -mfma.
#include "kernels/cpu/attention_table.hpp"

#if defined(__AVX512F__)
#define KINORA_LANES 16
#define KINORA_TILE 4  // 24 registers of sums, 4 of the right factor, 1 of the left
#include "kernels/cpu/attention_blocks.inc"

namespace kinora::attention_detail {
const AttentionKernels* avx512_attention() {
  static constexpr AttentionKernels kKernels = {forward, backward};
  return __builtin_cpu_supports("avx512f") ? &kKernels : nullptr;
}
}  // namespace kinora::attention_detail
#else
namespace kinora::attention_detail {
const AttentionKernels* avx512_attention() { return nullptr; }
}  // namespace kinora::attention_detail
#endif
