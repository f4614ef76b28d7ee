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
    for (int i = 0; i < half; ++i) e[i] = add(e[i], e[i + half]);
  }
  return e[0];
}

// The error of the values rounded to nearest, in units of 1 / g; v already multiplied by tensor.first.
KINORA_BOTH inline float error_of(ScaleRule rule, const Values& v, const TensorScale& tensor,
                                  const BlockScale& scale) {
  Values e;
  KINORA_UNROLL
  for (int i = 0; i < 16; ++i) {
    const float decoded = mul(e2m1_value(nearest_e2m1(mul(v[i], scale.multiply))), scale.value);
    e[i] = magnitude(sub(decoded, mul(magnitude(v[i]), tensor.encode)));
    if (rule == ScaleRule::mse) e[i] = mul(e[i], e[i]);
  }
  return rule == ScaleRule::abs_max ? amax_of(e) : sum_of(e);
}

// Eight codes, the first in the lowest nibble. Offsets add up modulo 2^32 and are subtracted together.
KINORA_BOTH inline uint32_t nearest_codes(const float* v, float multiply) {
  uint32_t codes = 0, signs = 0;
  KINORA_UNROLL
  for (int i = 7; i >= 0; --i) {
    codes = codes * 16 + offset_nearest_e2m1(mul(v[i], multiply));
    signs |= sign_e2m1(v[i], i);
  }
  return (codes - kNearestOffset * 0x11111111u) | signs;
}
KINORA_BOTH inline uint32_t stochastic_codes(const float* v, float multiply, const Words& noise) {
  uint32_t codes = 0, signs = 0;
  KINORA_UNROLL
  for (int i = 7; i >= 0; --i) {
    codes = codes * 16 + stochastic_e2m1(mul(v[i], multiply), noise_at(noise, i));
    signs |= sign_e2m1(v[i], i);
  }
  return codes | signs;
}

}  // namespace kinora::fp4
