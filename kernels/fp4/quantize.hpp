// NVFP4 on the processor: a matrix [rows, cols] of float32 or bfloat16 becomes E2M1 codes, E4M3 block scales
// (layout.hpp) and a global scale (scale.hpp). Blocks are 1x16 (activations, gradients) or 16x16 (weights:
// the transposed weight has the same codes). Where 16 does not divide a size, the last block is shorter.
//
// With `hadamard`, whole blocks along a row pass through hadamard.hpp first, in float32; a shorter last block
// does not, and neither does its partner in a product. Decoding then gives the transformed matrix.
//
// With `column_major` x is stored as [cols, rows], so codes and scales are those of a transposed array: the
// copy of an activation or a gradient [tokens, features] whose blocks follow the tokens, as the product of the
// weight gradient needs it. Everything else, noise too, counts rows and columns of the matrix.
//
// reference:: is the specification, in plain loops. The functions of namespace fp4 return its bits and use
// AVX-512 or AVX2 where the processor has them. T: float or Bfloat16. No function allocates or throws.
#pragma once
#include <cstdint>

#include "kernels/fp4/arithmetic.hpp"
#include "kernels/fp4/layout.hpp"
#include "kernels/fp4/philox.hpp"
#include "kernels/fp4/scale.hpp"

namespace kinora::fp4 {

struct Options {
  ScaleRule rule = ScaleRule::none;
  bool square = false;      // 16x16 blocks
  bool hadamard = false;    // along rows
  bool stochastic = false;  // else to nearest; the choice of an adaptive rule is always made to nearest
  bool swizzled = false;    // order of scales
  bool column_major = false;
  Noise noise;
};

// The largest finite magnitude of a matrix, after the transform if there is one, and the count of values that
// are not finite. The overflows of a transformed block count if its input is finite. Codes of a matrix with a
// count are undefined: refuse it.
struct Amax {
  float value = 0;
  uint32_t unused = 0;
  uint64_t non_finite = 0;
};

template <class T>
Amax find_amax(const Shape&, const T* x, bool hadamard, bool column_major = false);

// codes [code_bytes()], scales [scale_bytes()]. amax: find_amax()'s value, or the largest over ranks that
// share the matrix. Values beyond it are limited. Returns the global scale.
template <class T>
float quantize(const Shape&, const T* x, const Options&, float amax, uint8_t* codes, uint8_t* scales);

// x [rows, cols]; a bfloat16 result is rounded to nearest even.
template <class T>
void dequantize(const Shape&, const uint8_t* codes, const uint8_t* scales, bool swizzled, float global_scale,
                T* x);

namespace reference {
template <class T>
Amax find_amax(const Shape&, const T* x, bool hadamard, bool column_major = false);
template <class T>
float quantize(const Shape&, const T* x, const Options&, float amax, uint8_t* codes, uint8_t* scales);
template <class T>
void dequantize(const Shape&, const uint8_t* codes, const uint8_t* scales, bool swizzled, float global_scale,
                T* x);
}  // namespace reference

}  // namespace kinora::fp4
