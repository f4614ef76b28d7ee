// The forms of quantize.hpp for AVX2 and AVX-512.
#pragma once
#include "kernels/fp4/quantize.hpp"

namespace kinora::fp4_detail {

template <class T>
struct RowKernels {
  // As fp4::find_amax.
  fp4::Amax (*find_amax)(const fp4::Shape&, const T* x, bool hadamard, bool column_major);
  // Scales are zeroed where they are swizzled.
  void (*quantize)(const fp4::Shape&, const T* x, const fp4::Options&, const fp4::TensorScale&,
                   uint8_t* codes, uint8_t* scales);
  // As fp4::dequantize.
  void (*dequantize)(const fp4::Shape&, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                     float global_scale, T* x);
};

// Results of this many bytes are written past the caches, which could not hold them for their reader.
constexpr int64_t kStreamFrom = int64_t{8} << 20;

template <class T>
void dequantize_avx2(const fp4::Shape&, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                     float global_scale, T* x);

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

}  // namespace kinora::fp4_detail
