// Wan's rotary positions: axes time, rows, columns with d - 4 (d / 6), 2 (d / 6), 2 (d / 6) of a head's d
// channels (44, 42, 42 of 128). Neighbouring channels are a pair; pair j of an axis with n channels rotates by
// position * 10000^(-2j / n).
#pragma once
#include <ATen/ATen.h>

namespace kinora::wan {

// The dtype in which x is normalised, rotated and gated: float64 if x is, else float32.
inline at::ScalarType wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// table: int64 [1 or B, S, KINORA_TOKEN_COLUMNS] of the tokens -> cosines and sines [1 or B, S, 1, d / 2] of
// float64 angles, in `type`.
struct Turns {
  at::Tensor cos, sin;
};
Turns rope_turns(const at::Tensor& table, int64_t head_dim, at::ScalarType type);

}  // namespace kinora::wan
