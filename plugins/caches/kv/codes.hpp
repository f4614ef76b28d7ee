// Keys and values in E4M3 with a scale for each token and head (store = "fp8").
//
// B samples, S tokens, H heads, d width of a head.
#pragma once
#include "kinora/tensor.hpp"

namespace kinora {

constexpr int64_t kE4m3 = 24;  // c10::ScalarType::Float8_e4m3fn

struct Codes {
  Tensor bytes;   // uint8 [B, S, H, d]: for operators that do not know E4M3, such as index_select
  Tensor scales;  // float32 [B, S, H, 1]
};
// x [B, S, H, d]
Codes coded(const Tensor& x);
// The bytes as float8_e4m3fn, without a copy.
Tensor e4m3(const Tensor& bytes);
// The numbers of the codes, in float64 if `dtype` is that and in float32 otherwise.
Tensor decoded(const Codes& codes, int32_t dtype);

}  // namespace kinora
