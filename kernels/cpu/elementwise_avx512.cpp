// Compiled with -mavx512f -mfma.
#include "kernels/cpu/elementwise_table.hpp"

#if defined(__AVX512F__)
#include "kernels/cpu/elementwise.inc"

namespace kinora::elementwise_detail {
const ElementwiseKernels* avx512_elementwise() {
  static constexpr ElementwiseKernels kKernels = KINORA_ELEMENTWISE;
  return __builtin_cpu_supports("avx512f") ? &kKernels : nullptr;
}
}  // namespace kinora::elementwise_detail
#else
namespace kinora::elementwise_detail {
const ElementwiseKernels* avx512_elementwise() { return nullptr; }
}  // namespace kinora::elementwise_detail
#endif
