// Compiled with -mavx2 -mfma.
#define KINORA_LANES 8
#define KINORA_ROWS 6
#include "kernels/cpu/tap_product_table.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/cpu/tap_product.inc"

namespace kinora::tap_product_detail {
decltype(&kinora::tap_product) avx2_tap_product() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &product : nullptr;
}
}  // namespace kinora::tap_product_detail
#else
namespace kinora::tap_product_detail {
decltype(&kinora::tap_product) avx2_tap_product() { return nullptr; }
}  // namespace kinora::tap_product_detail
#endif
