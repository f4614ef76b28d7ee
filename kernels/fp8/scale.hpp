// The scales of FP8 and the places of codes and scales of a matrix [rows, cols].
//
//   scaling  one scale for    scales
//   tensor   the matrix       float32 [1]
//   row      1x128 values     float32 [rows, (cols + 127) / 128]
//   square   128x128 values   float32 [(rows + 127) / 128, (cols + 127) / 128]
//   mx       1x32 values      a byte each, E8M0: [rows, (cols + 31) / 32], or swizzled (fp4/layout.hpp)
//
// Where a block does not divide the size, the last one is smaller. Codes are bytes [rows, cols].
//
// A value x has the code FP8(x m) and decodes to q s, where m is 1 / s. With a, the largest finite magnitude
// of a block, and L, the format's largest number, s is:
//
//   rule   s
//   exact  1 / m with m = L / a, both rounded to float32; m is limited to the largest float32
//   up     the least power of two with a <= L s: TransformerEngine's power-of-two scales, cuBLAS's MXFP8
//   floor  2^(floor(log2 a) - floor(log2 L)) (OCP Microscaling 1.0, 6.3): up to 1/8 of a is cut off
//
// Powers are limited to 2^-127 or more. mx has powers only: its `exact` is `up`. For a block of zeros s
// is 1, and 2^-127 (code 0) for mx. A code of 255 means NaN: its block decodes to NaN.
#pragma once
#include "kernels/fp4/layout.hpp"
#include "kernels/fp8/numbers.hpp"

namespace kinora::fp8 {

using fp4::Shape;

enum class Scaling : int32_t { tensor, row, square, mx };
enum class ScaleRule : int32_t { exact, up, floor };

// Values in a row that share a scale; for `tensor`, values that are processed together.
KINORA_BOTH inline int64_t block_cols(Scaling scaling) { return scaling == Scaling::mx ? 32 : 128; }
KINORA_BOTH inline int64_t block_rows(Scaling scaling) { return scaling == Scaling::square ? 128 : 1; }
KINORA_BOTH inline int64_t blocks_a_row(const Shape& n, Scaling scaling) {
  return fp4::divided_up(n.cols, block_cols(scaling));
}

inline int64_t scale_bytes(const Shape& n, Scaling scaling, bool swizzled) {
  const int64_t across = blocks_a_row(n, scaling);
  if (scaling == Scaling::tensor) return sizeof(float);
  if (scaling != Scaling::mx)
    return fp4::divided_up(n.rows, block_rows(scaling)) * across * int64_t{sizeof(float)};
  return swizzled ? fp4::divided_up(n.rows, 128) * 128 * fp4::divided_up(across, 4) * 4 : n.rows * across;
}

// Index among the scales of the block that contains this row and has number `block` in it.
KINORA_BOTH inline int64_t scale_place(int64_t blocks_a_row, Scaling scaling, bool swizzled, int64_t row,
                                       int64_t block) {
  if (scaling == Scaling::tensor) return 0;
  if (scaling == Scaling::square) row /= 128;
  return fp4::scale_place(blocks_a_row, scaling == Scaling::mx && swizzled, row, block);
}

struct Scale {
  float value;        // s
  float multiply;     // m
  uint32_t exponent;  // E8M0, of a power of two
};

KINORA_BOTH inline float e8m0_value(uint32_t code) {
  return fp4::float_of(code == 255 ? 0x7fc00000u : code == 0 ? 0x00400000u : code << 23);
}

KINORA_BOTH inline Scale power_scale(uint32_t exponent) {
  return {e8m0_value(exponent), fp4::float_of((254 - exponent) << 23), exponent};
}

// amax: finite.
template <Format kFormat>
KINORA_BOTH Scale scale_of(Scaling scaling, ScaleRule rule, float amax) {
  constexpr float kLargest = Numbers<kFormat>::kLargest;  // 1.75 times a power of two
  const bool mx = scaling == Scaling::mx;
  if (!(amax > 0)) return power_scale(mx ? 0 : 127);
  if (!mx && rule == ScaleRule::exact) {
    float multiply = fp4::div(kLargest, amax);
    if (!(multiply < fp4::kLargest)) multiply = fp4::kLargest;
    return {fp4::div(1.0f, multiply), multiply, 0};
  }
  constexpr uint32_t kMantissa = 0x7fffffu, kThreeQuarters = 0x600000u;
  constexpr int32_t kPower = kFormat == Format::e4m3 ? 8 : 15;
  const uint32_t bits = fp4::bits_of(amax);
  const bool more = rule != ScaleRule::floor && (bits & kMantissa) > kThreeQuarters;
  const int32_t exponent = static_cast<int32_t>(bits >> 23) - kPower + more;
  return power_scale(exponent > 0 ? static_cast<uint32_t>(exponent) : 0u);
}

}  // namespace kinora::fp8
