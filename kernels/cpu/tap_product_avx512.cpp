// Compiled with -mavx512f -mfma.
#define KINORA_LANES 16
#define KINORA_ROWS 14
#include "kernels/cpu/tap_product_table.hpp"

#if defined(__AVX512F__)
#include "kernels/cpu/tap_product.inc"

namespace kinora::tap_product_detail {
decltype(&kinora::tap_product) avx512_tap_product() {
  return __builtin_cpu_supports("avx512f") ? &product : nullptr;
}
}  // namespace kinora::tap_product_detail
#else
namespace kinora::tap_product_detail {
decltype(&kinora::tap_product) avx512_tap_product() { return nullptr; }
}  // namespace kinora::tap_product_detail
#endif
