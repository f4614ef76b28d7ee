// The two builds of tap_product.inc; null if the compiler or the processor does not support them.
#pragma once
#include "kernels/cpu/tap_product.hpp"

namespace kinora::tap_product_detail {

decltype(&kinora::tap_product) avx2_tap_product();
decltype(&kinora::tap_product) avx512_tap_product();

}  // namespace kinora::tap_product_detail
