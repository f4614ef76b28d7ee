// E4M3 (OCP 8-bit floating point, 2023): exponent bias 7, largest number 448, smallest 2^-9, no infinities;
// 0x7f is NaN.
#pragma once
#include "kernels/fp4/arithmetic.hpp"

namespace kinora::fp4 {

constexpr float kLargestE4m3 = 448;

// x >= 0, to nearest even, limited to 448. The sign bit of the code is 0: block scales are not negative.
KINORA_BOTH inline uint32_t e4m3_code(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t codes;  // of x and, above it, of 0
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(0.0f), "f"(x));
  return codes;
#else
  const float limited = x < kLargestE4m3 ? x : kLargestE4m3;
  if (limited < 0x1p-6f) return bits_of(add(limited, 0x1p14f)) - 0x46800000u;  // steps of 2^-9
  const uint32_t bits = bits_of(limited);
  return ((bits + 0x7ffffu + (bits >> 20 & 1)) >> 20) - (120u << 3);
#endif
}

KINORA_BOTH inline float e4m3_value(uint32_t code) {
  const uint32_t sign = (code & 0x80) << 24, rest = code & 0x7f;
  if (rest == 0x7f) return float_of(sign | 0x7fc00000u);
  const float magnitude =
      rest < 8 ? mul(static_cast<float>(rest), 0x1p-9f) : float_of((rest << 20) + (120u << 23));
  return float_of(sign | bits_of(magnitude));
}

}  // namespace kinora::fp4
