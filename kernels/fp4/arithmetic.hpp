// Float32 arithmetic with the same bits on every machine: each operation is rounded once, to nearest even,
// subnormal numbers are kept, and division is IEEE's. On a GPU the intrinsics forbid contraction into fused
// operations; nvcc's -use_fast_math and -ftz=true would break the equality. On a processor the files that
// include this header are compiled with -ffp-contract=off.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/host_device.hpp"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

namespace kinora::fp4 {

constexpr uint32_t kInfinity = 0x7f800000u;
constexpr float kLargest = 0x1.fffffep127f;

KINORA_BOTH inline uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

KINORA_BOTH inline float float_of(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

#ifdef __CUDA_ARCH__
__device__ inline float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float div(float a, float b) { return __fdiv_rn(a, b); }
// a * b + c where a * b is exact, so that fused and separate operations agree.
__device__ inline float exact_mul_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// x limited to [0, 1].
__device__ inline float saturate(float x) { return __saturatef(x); }
__device__ inline float magnitude(float x) { return fabsf(x); }
// The larger of two magnitudes.
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
// bits << 1, with the sign of x as the lowest bit.
__device__ inline uint32_t append_sign(uint32_t bits, float x) {
  return __funnelshift_l(bits_of(x), bits, 1);
}
// Byte i of the result: number s of the eight bytes of low and high, s being nibble i of `which`, 0 to 7.
__device__ inline uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t which) {
  uint32_t picked;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(picked) : "r"(low), "r"(high), "r"(which));
  return picked;
}
#else
KINORA_BOTH inline float mul(float a, float b) { return a * b; }
KINORA_BOTH inline float add(float a, float b) { return a + b; }
KINORA_BOTH inline float sub(float a, float b) { return a - b; }
KINORA_BOTH inline float div(float a, float b) { return a / b; }
KINORA_BOTH inline float exact_mul_add(float a, float b, float c) { return a * b + c; }
KINORA_BOTH inline float saturate(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
KINORA_BOTH inline float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
KINORA_BOTH inline float larger(float a, float b) { return a > b ? a : b; }
KINORA_BOTH inline uint32_t append_sign(uint32_t bits, float x) { return bits << 1 | bits_of(x) >> 31; }
KINORA_BOTH inline uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t which) {
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t picked = 0;
  for (int i = 0; i < 4; ++i)
    picked |= static_cast<uint32_t>(both >> (which >> (4 * i) & 7) * 8 & 0xff) << 8 * i;
  return picked;
}
#endif

KINORA_BOTH inline bool is_finite(float x) { return (bits_of(x) & kInfinity) != kInfinity; }

struct Bfloat16 {
  uint16_t bits;
};

KINORA_BOTH inline float to_float(float x) { return x; }
KINORA_BOTH inline float to_float(Bfloat16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

// Rounds a number, not a NaN, to nearest even.
KINORA_BOTH inline void assign(float& to, float x) { to = x; }
KINORA_BOTH inline void assign(Bfloat16& to, float x) {
#ifdef __CUDA_ARCH__
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
  const uint32_t bits = bits_of(x);
  to.bits = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
#endif
}

}  // namespace kinora::fp4
