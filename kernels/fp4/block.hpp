// The arithmetic of 16 values in a row, shared by the kernels. Values past the end of a row are zeros.
#pragma once
#include "kernels/fp4/philox.hpp"
#include "kernels/fp4/scale.hpp"

namespace kinora::fp4 {

using Values = float[16];

KINORA_BOTH inline float amax_of(const Values& v) {
  float most = 0;
  KINORA_UNROLL
  for (int i = 0; i < 16; ++i) most = larger(most, magnitude(v[i]));
  return most;
}

// By halves: part of the definition, since sums depend on their order.
KINORA_BOTH inline float sum_of(Values& e) {
  KINORA_UNROLL
  for (int half = 8; half > 0; half /= 2) {
    KINORA_UNROLL
    for (int i = 0; i < 8; ++i)  // a constant count, so that e stays in registers
      if (i < half) e[i] = add(e[i], e[i + half]);
  }
  return e[0];
}

// The error of 16 values from those of each, which it overwrites.
KINORA_BOTH inline float error_of(ScaleRule rule, Values& e) {
  if (rule == ScaleRule::abs_max) return amax_of(e);
  if (rule == ScaleRule::mse) {
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i) e[i] = mul(e[i], e[i]);
  }
  return sum_of(e);
}

// Eight codes, the first in the lowest nibble. Offsets add up modulo 2^32 and are subtracted together.
// each(i, bits): the offset code of value i.
template <class Each>
KINORA_BOTH inline uint32_t nearest_codes(const float* v, float multiply, Each each) {
  uint32_t codes = 0;
  KINORA_UNROLL
  for (int i = 7; i >= 0; --i) {
    const uint32_t bits = offset_nearest_e2m1(mul(v[i], multiply));
    codes = append_sign(codes, v[i]) * 8 + bits;
    each(i, bits);
  }
  return codes - kNearestOffset * 0x11111111u;
}

struct Ignore {
  KINORA_BOTH void operator()(int, uint32_t) const {}
};

// e[i]: the error of value i in units of 1 / g; v already multiplied by tensor.first.
struct Errors {
  const float* v;
  float encode, value;
  float* e;
  KINORA_BOTH void operator()(int i, uint32_t bits) const {
    const float code = mul(float_of(bits << 22), 0x1p126f);  // as e2m1_value(); code * value is exact
    e[i] = magnitude(exact_mul_add(code, value, -mul(magnitude(v[i]), encode)));
  }
};

// Values k and k + 4 share a word, the second in its upper half: one shift moves both, and after k shifts of
// four bits they are where they belong.
KINORA_BOTH inline uint32_t stochastic_codes(const float* v, float multiply, const Words& noise) {
  constexpr uint32_t kSigns = 0x80008000u, kUpper = 0x7632u;
  uint32_t codes = 0, signs = 0;
  KINORA_UNROLL
  for (int k = 3; k >= 0; --k)
    codes = codes * 16 + pick_bytes(offset_stochastic_e2m1(mul(v[k], multiply), noise_at(noise, k)),
                                    offset_stochastic_e2m1(mul(v[k + 4], multiply), noise_at(noise, k + 4)),
                                    kUpper);
  KINORA_UNROLL
  for (int k = 0; k < 4; ++k)
    signs = (signs >> 4 & ~kSigns) | (pick_bytes(bits_of(v[k]), bits_of(v[k + 4]), kUpper) & kSigns);
  return (codes - kStochasticOffset * 0x10001u * 0x1111u) | (signs & 0x88888888u);
}

}  // namespace kinora::fp4
