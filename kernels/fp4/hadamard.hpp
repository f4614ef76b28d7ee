// The random Hadamard transform of 16 values: y = x diag(S) H / 4, with Sylvester's H and the signs S of
// TransformerEngine's recipe (NVIDIA 2025, arXiv 2509.25149). It is orthogonal: a product keeps
// its value when both operands are transformed along the dimension that is summed.
#pragma once
#include "kernels/fp4/arithmetic.hpp"

namespace kinora::fp4 {

constexpr uint32_t kNegativeSigns = 0xd7e8;  // bit i: S[i] = -1

KINORA_BOTH inline void flip_signs(float (&v)[16]) {
  KINORA_UNROLL
  for (int i = 0; i < 16; ++i)
    if (kNegativeSigns >> i & 1) v[i] = -v[i];
}

// v H / 4. The quarter is taken halfway, so that no sum overflows whose result would not. The order of the
// sums is part of the definition: distances 8, 4, 2, 1.
KINORA_BOTH inline void hadamard(float (&v)[16]) {
  KINORA_UNROLL
  for (int distance = 8; distance > 0; distance /= 2) {
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i) {
      if (i & distance) continue;
      const float a = v[i], b = v[i + distance];
      v[i] = add(a, b);
      v[i + distance] = sub(a, b);
    }
    if (distance != 4) continue;
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i) v[i] = mul(v[i], 0.25f);
  }
}

KINORA_BOTH inline void random_hadamard(float (&v)[16]) {
  flip_signs(v);
  hadamard(v);
}

}  // namespace kinora::fp4
