// Rotary positions factorised over time, rows and columns (Cosmos, arXiv 2501.03575, section 5.1.2), for
// models of the pinned tier.
//
// Of a head's d channels, h = w = 2 * (d / 6) belong to rows and to columns, the rest to time. Pair i is (i,
// i + d / 2). Pair j of an axis with n channels rotates by position * (10000 * scale^(n / (n - 2)))^(-2j /
// n).
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/abi/context.h"

KINORA_SDK_BEGIN

namespace kinora {

struct Turns {
  at::Tensor cos, sin;
};

// position [...] -> [..., n / 2], float64: the angles of an axis with n channels, position * theta^(-2j / n).
inline at::Tensor rope_angles(const at::Tensor& position, int64_t n, double theta) {
  const auto places = at::arange(0, n, 2, position.options().dtype(at::kDouble));
  return position.to(at::kDouble).unsqueeze(-1) * at::pow(theta, places / -static_cast<double>(n));
}

// table: int64 [1 or B, S, KINORA_TOKEN_COLUMNS] of the tokens. scale: time, rows, columns. rate: undefined,
// or the factor of time positions, [1 or B] or [1 or B, 1 or S]. -> [1 or B, S, 1 (head_dims times), d / 2],
// float32, float64 if `like` is; head_dims: number of head dimensions between S and d in the tensor to be
// rotated.
inline Turns rope_turns(const at::Tensor& table, int64_t head_size, const std::vector<double>& scale,
                        const at::Tensor& rate, const at::Tensor& like, int head_dims = 1) {
  const int64_t space = head_size / 6 * 2, sizes[] = {head_size - 2 * space, space, space};
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  const int64_t batch = std::max(table.size(0), rate.defined() ? rate.size(0) : 1);
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < 3; ++axis) {
    at::Tensor position = table.select(2, columns[axis]).to(at::kDouble);  // [1 or B, S]
    if (axis == 0 && rate.defined())
      position = position * (rate.dim() == 1 ? rate.unsqueeze(1) : rate).to(at::kDouble);
    const auto n = static_cast<double>(sizes[axis]);
    const double theta = scale[axis] == 1 ? 10000 : 10000 * std::pow(scale[axis], n / (n - 2));
    angles.push_back(rope_angles(position.expand({batch, -1}), sizes[axis], theta));
  }
  at::Tensor angle = at::cat(angles, -1);
  for (int i = 0; i < head_dims; ++i) angle = angle.unsqueeze(2);
  const auto type = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {angle.cos().to(type), angle.sin().to(type)};
}

// x [B, S, heads..., d], rotated; in x's dtype.
inline at::Tensor rope(const at::Tensor& x, const Turns& turns) {
  const auto half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * turns.cos - b * turns.sin, b * turns.cos + a * turns.sin}, -1).to(x.scalar_type());
}

}  // namespace kinora

KINORA_SDK_END
