// The forms of quantize.hpp for AVX2 and AVX-512.
#pragma once
#include "kernels/fp8/quantize.hpp"

namespace kinora::fp8_detail {

// As functions of namespace fp8, except that quantize() is given zeroed scales where they are swizzled.
template <class T>
struct RowKernels {
  uint64_t (*quantize)(const fp8::Shape&, const T* x, const fp8::Options&, float amax, uint8_t* codes,
                       void* scales);
  void (*dequantize)(const fp8::Shape&, const uint8_t* codes, const void* scales, const fp8::Options&, T* x);
};

// Results of this many bytes are written past the caches, which could not hold them for their reader.
constexpr int64_t kStreamFrom = int64_t{8} << 20;

template <class T>
void dequantize_avx2(const fp8::Shape&, const uint8_t* codes, const void* scales, const fp8::Options&, T* x);

// Null if the compiler or the processor does not support them.
template <class T>
const RowKernels<T>* avx2_rows();
template <class T>
const RowKernels<T>* avx512_rows();

// The fastest for this processor, or null.
template <class T>
const RowKernels<T>* rows_for() {
  static const RowKernels<T>* const kRows = avx512_rows<T>() ? avx512_rows<T>() : avx2_rows<T>();
  return kRows;
}

}  // namespace kinora::fp8_detail
