// E2M1, the four-bit number of NVFP4: a sign, two bits of exponent, one of mantissa. Magnitudes by code:
//
//   0    1    2    3    4    5    6    7
//   0   0.5   1   1.5   2    3    4    6
//
// Bit 3 is the sign; a zero keeps it, as the conversion instruction of sm_100a does.
//
// Between two neighbours the code is a linear function of the magnitude a, so
//   p(a) = 4 min(a / 2, 1) + 2 clamp((a - 2) / 2) + clamp((a - 4) / 2),   clamp to [0, 1]
// is the code as a real number: rounding it rounds a, ties to the even code. Each term is exact in float32
// and the next one is zero until it is full, so a sum that starts at a large number rounds once, to its unit
// in the last place.
#pragma once
#include "kernels/fp4/arithmetic.hpp"

namespace kinora::fp4 {

constexpr float kLargestE2m1 = 6;

// start + p(a), a >= 0.
KINORA_BOTH inline float add_position(float start, float a) {
  const float sum = exact_mul_add(4.0f, saturate(mul(a, 0.5f)), start);
  return add(exact_mul_add(2.0f, saturate(exact_mul_add(a, 0.5f, -1.0f)), sum),
             saturate(exact_mul_add(a, 0.5f, -2.0f)));
}

// The code of |x|, 0 to 7, limited to 6.0, plus kNearestOffset; ties to the even code.
constexpr uint32_t kNearestOffset = 0x4b400000u;  // the ten lowest bits are zeros
KINORA_BOTH inline uint32_t offset_nearest_e2m1(float x) {
  constexpr float kUnit = 0x1.8p23f;  // its last place counts 1
  return bits_of(add_position(kUnit, magnitude(x)));
}
KINORA_BOTH inline uint32_t nearest_e2m1(float x) { return offset_nearest_e2m1(x) - kNearestOffset; }

// The code of |x| rounded up with a probability equal to its distance from the code below, in steps of 2^-16.
// noise: uniform in [0, 65536). An exact value never moves. The upper half of the result is the code plus
// kStochasticOffset.
constexpr uint32_t kStochasticOffset = 0x4340u;
KINORA_BOTH inline uint32_t offset_stochastic_e2m1(float x, uint32_t noise) {
  constexpr float kSixteenth = 0x1.8p7f;  // its last place counts 2^-16
  return bits_of(add_position(kSixteenth, magnitude(x))) + noise;
}

// The number of a code, 0 to 15: its bits are those of a float32 whose exponent is 126 too small.
KINORA_BOTH inline float e2m1_value(uint32_t code) {
  return mul(float_of((code & 8) << 28 | (code & 7) << 22), 0x1p126f);
}

}  // namespace kinora::fp4
