// The two numbers of FP8 (OCP 8-bit floating point, 2023): a sign, then an exponent and a mantissa.
//
//          bias  mantissa  largest  smallest normal  smallest  infinity  NaN
//   E4M3   7     3 bits    448      2^-6             2^-9      none      0x7f
//   E5M2   15    2 bits    57344    2^-14            2^-16     0x7c      0x7d to 0x7f
#pragma once
#include "kernels/fp4/arithmetic.hpp"

namespace kinora::fp8 {

using fp4::Bfloat16;

enum class Format : int32_t { e4m3, e5m2 };

template <Format>
struct Numbers;
template <>
struct Numbers<Format::e4m3> {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr float kLargest = 448, kSmallestNormal = 0x1p-6f, kSmallest = 0x1p-9f;
  static constexpr uint32_t kFirstSpecial = 0x7f;  // codes of magnitudes from here on are NaN or infinite
};
template <>
struct Numbers<Format::e5m2> {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr float kLargest = 57344, kSmallestNormal = 0x1p-14f, kSmallest = 0x1p-16f;
  static constexpr uint32_t kFirstSpecial = 0x7c;
};

constexpr float largest_of(Format format) {
  return format == Format::e4m3 ? Numbers<Format::e4m3>::kLargest : Numbers<Format::e5m2>::kLargest;
}

// x to nearest even. Magnitudes beyond the largest number, infinities too, become the largest; a NaN becomes
// 0x7f; a zero keeps its sign.
template <Format kFormat>
KINORA_BOTH uint32_t code_of(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t codes;  // of x and, above it, of 0
  if constexpr (kFormat == Format::e4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(0.0f), "f"(x));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(0.0f), "f"(x));
  return codes & 0xff;
#else
  using N = Numbers<kFormat>;
  constexpr int kShift = 23 - N::kMantissa;
  constexpr uint32_t kHalf = (1u << (kShift - 1)) - 1;
  constexpr float kUnit = N::kSmallest * 0x1p23f;  // its last place counts the smallest number
  const uint32_t sign = fp4::bits_of(x) >> 24 & 0x80;
  const float a = fp4::magnitude(x);
  if (fp4::bits_of(a) > fp4::kInfinity) return 0x7f;
  const float limited = a < N::kLargest ? a : N::kLargest;
  if (limited < N::kSmallestNormal)
    return sign | (fp4::bits_of(fp4::add(limited, kUnit)) - fp4::bits_of(kUnit));
  const uint32_t bits = fp4::bits_of(limited);
  const uint32_t rounded = (bits + kHalf + (bits >> kShift & 1)) >> kShift;
  return sign | (rounded - ((127 - N::kBias) << N::kMantissa));
#endif
}

// The code, moved below the sign of float32, is a number with an exponent that is 127 - bias too small.
template <Format kFormat>
KINORA_BOTH float value_of(uint32_t code) {
  using N = Numbers<kFormat>;
  constexpr float kPower = kFormat == Format::e4m3 ? 0x1p120f : 0x1p112f;
  constexpr uint32_t kInfinite = kFormat == Format::e5m2 ? N::kFirstSpecial : 0x80;
  const uint32_t sign = (code & 0x80) << 24, rest = code & 0x7f;
  if (rest >= N::kFirstSpecial)
    return fp4::float_of(sign | (rest == kInfinite ? fp4::kInfinity : 0x7fc00000u));
  return fp4::mul(fp4::float_of(sign | rest << (23 - N::kMantissa)), kPower);
}

}  // namespace kinora::fp8
