// Compiled with -mavx2 -mfma.
#include "kernels/cpu/elementwise_table.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/cpu/elementwise.inc"

namespace kinora::elementwise_detail {
const ElementwiseKernels* avx2_elementwise() {
  static constexpr ElementwiseKernels kKernels = KINORA_ELEMENTWISE;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernels : nullptr;
}
}  // namespace kinora::elementwise_detail
#else
namespace kinora::elementwise_detail {
const ElementwiseKernels* avx2_elementwise() { return nullptr; }
}  // namespace kinora::elementwise_detail
#endif
