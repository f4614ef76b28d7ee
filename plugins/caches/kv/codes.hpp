// Keys and values in E4M3 with a scale for each token and head (store = "fp8").
//
// B samples, S tokens, H heads, d width of a head.
#pragma once
#include "kinora/tensor.hpp"

namespace kinora {

struct Codes {
  Tensor bytes;   // uint8 [B, S, H, d]: for operators that do not know E4M3, such as index_select
  Tensor scales;  // float32 [B, S, H, 1]
};
// x [B, S, H, d]
Codes coded(const Tensor& x);
// The bytes as float8_e4m3fn, without a copy.
Tensor e4m3(const Tensor& bytes);
Tensor decoded(const Codes& codes, int32_t dtype);

}  // namespace kinora
