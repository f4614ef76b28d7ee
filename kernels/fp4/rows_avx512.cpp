// The forms of rows.inc for AVX-512, compiled as rows_avx2.cpp is. Decoding is AVX2's, since memory sets its
// time.
#include "kernels/fp4/rows_table.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <cstring>
#include <immintrin.h>

#include "kernels/fp4/hadamard.hpp"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")

namespace kinora::fp4_detail {
namespace {

#include "kernels/fp4/lanes_avx512.inc"
#include "kernels/fp4/rows.inc"

}  // namespace

template <class T>
const RowKernels<T>* avx512_rows() {
  static constexpr RowKernels<T> kKernels = {find_amax<T>, quantize<T>, dequantize_avx2<T>};
  const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return supported ? &kKernels : nullptr;
}

}  // namespace kinora::fp4_detail
#pragma GCC pop_options
#else
namespace kinora::fp4_detail {
template <class T>
const RowKernels<T>* avx512_rows() {
  return nullptr;
}
}  // namespace kinora::fp4_detail
#endif

namespace kinora::fp4_detail {
template const RowKernels<float>* avx512_rows();
template const RowKernels<fp4::Bfloat16>* avx512_rows();
}  // namespace kinora::fp4_detail
