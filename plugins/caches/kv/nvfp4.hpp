// Keys and values in NVFP4 (store = "nvfp4"), by the formulas of kernels/fp4/scale.hpp, rule static_6, in libtorch's
// operations. Blocks of 16 numbers lie along the width of a head; the global scale g is that of one head of one token,
// so that neither the division of heads among ranks nor the tokens of a forward change a number. g is at most 2^100,
// which differs from the kernels where all numbers of a head are below 3e-27.
//
// B samples, S tokens, H heads, d width of a head.
#pragma once
#include "kinora/tensor.hpp"

namespace kinora {

// x [B, S, H, d] -> uint8 [B, S, H, 9 ceil(d / 16) + 4]: of a head of one token E2M1 codes, two a byte, the first in
// the low four bits; an E4M3 scale of each block; g in float32. The last block is padded with zeros. Numbers of a head
// that has an infinity or NaN become NaN.
Tensor nvfp4_packed(const Tensor& x);
// The bytes of packed() -> float32 [B, S, H, d].
Tensor nvfp4_unpacked(const Tensor& bytes, int64_t d);

}  // namespace kinora
