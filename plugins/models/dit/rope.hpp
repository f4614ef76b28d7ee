// Rotary positions factorised over time, rows and columns (Cosmos, arXiv 2501.03575, section 5.1.2).
//
// Of a head's d channels, h = w = 2 * (d / 6) belong to rows and to columns, the rest to time. Pair i is (i,
// i + d / 2). Pair j of an axis with n channels turns by position * (10000 * scale^(n / (n - 2)))^(-2j / n).
#pragma once
#include <vector>

#include <ATen/ATen.h>

namespace kinora::dit {

// table: int64 [1 or B, S, KINORA_TOKEN_COLUMNS] of the tokens. scale: time, rows, columns. rate: undefined,
// or what a time position is multiplied with, [1 or B, 1 or S]. -> cosines and sines [1 or B, S, 1, 1, d /
// 2], float32, float64 if `like` is.
struct Turns {
  at::Tensor cos, sin;
};
Turns rope_turns(const at::Tensor& table, int64_t head_size, const std::vector<double>& scale,
                 const at::Tensor& rate, const at::Tensor& like);

// x [B, S, groups, heads of a group, d], turned; in x's dtype.
at::Tensor rope(const at::Tensor& x, const Turns& turns);

}  // namespace kinora::dit
