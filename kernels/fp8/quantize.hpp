// FP8 on the processor: a matrix [rows, cols] of float32 or bfloat16 becomes E4M3 or E5M2 codes (numbers.hpp)
// and scales of the whole matrix, of 1x128, 128x128 or 1x32 values (scale.hpp).
//
// Values that are not finite do not count towards a scale. quantize() returns how many there are: an infinity
// has become the largest number, a NaN 0x7f; refuse the matrix. Magnitudes beyond the largest number become
// the largest, which happens where `amax` is not this matrix's own, and by ScaleRule::floor.
//
// reference:: is the specification, in plain loops. The functions of namespace fp8 return its bits and use
// AVX-512 or AVX2 where the processor has them. T: float or Bfloat16. No function allocates or throws.
#pragma once
#include <cstdint>

#include "kernels/fp8/scale.hpp"

namespace kinora::fp8 {

struct Options {
  Format format = Format::e4m3;
  Scaling scaling = Scaling::tensor;
  ScaleRule rule = ScaleRule::exact;
  bool swizzled = false;      // order of mx's scales
  bool column_major = false;  // the matrix is stored as [cols, rows]: codes and scales of a transposed array
};

// x [rows, cols], or [cols, rows] with column_major; codes [rows, cols]; scales: scale_bytes() bytes. amax,
// for `tensor` alone: fp4::find_amax()'s value without a transform, or the largest over ranks that share the
// matrix. Returns the count of values that are not finite.
template <class T>
uint64_t quantize(const Shape&, const T* x, const Options&, float amax, uint8_t* codes, void* scales);

// x [rows, cols]; a bfloat16 result is rounded to nearest even. Options: format, scaling, swizzled.
template <class T>
void dequantize(const Shape&, const uint8_t* codes, const void* scales, const Options&, T* x);

namespace reference {
template <class T>
uint64_t quantize(const Shape&, const T* x, const Options&, float amax, uint8_t* codes, void* scales);
template <class T>
void dequantize(const Shape&, const uint8_t* codes, const void* scales, const Options&, T* x);
}  // namespace reference

}  // namespace kinora::fp8
