// The forms of rows.inc for AVX2. The pragma below begins the code for AVX2. Headers come before it and are
// compiled for every processor, since the linker keeps one copy of an inline function.
#include "kernels/fp4/rows_table.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <cstring>
#include <immintrin.h>

#include "kernels/fp4/hadamard.hpp"

#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace kinora::fp4_detail {
namespace {

#include "kernels/fp4/lanes_avx2.inc"
#include "kernels/fp4/rows.inc"

}  // namespace

template <class T>
const RowKernels<T>* avx2_rows() {
  static constexpr RowKernels<T> kKernels = {find_amax<T>, quantize<T>, dequantize_avx2<T>};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernels : nullptr;
}

}  // namespace kinora::fp4_detail
#pragma GCC pop_options
#else
namespace kinora::fp4_detail {
template <class T>
const RowKernels<T>* avx2_rows() {
  return nullptr;
}
}  // namespace kinora::fp4_detail
#endif

namespace kinora::fp4_detail {
template const RowKernels<float>* avx2_rows();
template const RowKernels<fp4::Bfloat16>* avx2_rows();
}  // namespace kinora::fp4_detail
