// Rotary positions factorised over time, rows and columns (Cosmos, arXiv 2501.03575, section 5.1.2), for
// models of the pinned tier.
//
// A head's d channels: h = w = 2 * (d / 6) belong to rows and to columns each, the rest to time. Pair i is (i,
// i + d / 2). Pair j of an axis with n channels rotates by position * (10000 * scale^(n / (n - 2)))^(-2j /
// n).
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/abi/context.h"
#include "kinora/aten.hpp"

KINORA_SDK_BEGIN

namespace kinora {

struct Turns {
  at::Tensor cos, sin;
  at::Tensor rate = {};  // as in rope_turns
};

// A model's rotation as Attention::rope describes it. It lives as long as the model.
class Rope {
 public:
  // layout: KINORA_ROPE_*. channels, theta: of each axis; pair j of an axis rotates by position * theta^(-2j /
  // channels). The axes are time, rows and columns.
  Rope(uint32_t layout, const std::vector<int64_t>& channels, const std::vector<double>& theta) {
    constexpr int64_t kColumns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
    all_.struct_size = sizeof all_;
    all_.layout = layout;
    all_.n_axes = static_cast<uint32_t>(channels.size());
    for (size_t axis = 0; axis < channels.size(); ++axis) {
      all_.pairs[axis] = channels[axis] / 2, all_.column[axis] = kColumns[axis], all_.divisor[axis] = 1;
      for (int64_t j = 0; j < all_.pairs[axis]; ++j)
        frequency_.push_back(
            std::pow(theta[axis], -2 * static_cast<double>(j) / static_cast<double>(channels[axis])));
    }
  }
  // Without a rate.
  kinora_rope all() const {
    kinora_rope out = all_;
    out.frequency = frequency_.data();
    return out;
  }
  // For Attention::rope, in memory of the caller. Null if the tokens of a sample have different rates, as those of a
  // packed row: they cannot be described.
  const kinora_rope* of(const Turns& turns, kinora_rope& out) const {
    out = all();
    out.rate = handle(turns.rate);
    return turns.rate.defined() && turns.rate.dim() > 1 ? nullptr : &out;
  }

 private:
  kinora_rope all_{};
  std::vector<double> frequency_;
};

// Channels of time, rows and columns.
inline std::vector<int64_t> rope_channels(int64_t head_size) {
  const int64_t space = head_size / 6 * 2;
  return {head_size - 2 * space, space, space};
}
// The base of the wavelengths of n channels.
inline double rope_theta(double scale, int64_t channels) {
  const auto n = static_cast<double>(channels);
  return scale == 1 ? 10000 : 10000 * std::pow(scale, n / (n - 2));
}
// The description of rope_turns.
inline Rope video_rope(uint32_t layout, int64_t head_size, const std::vector<double>& scale) {
  const auto channels = rope_channels(head_size);
  std::vector<double> theta;
  for (size_t axis = 0; axis < 3; ++axis) theta.push_back(rope_theta(scale[axis], channels[axis]));
  return {layout, channels, theta};
}

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
  const auto channels = rope_channels(head_size);
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  const int64_t batch = std::max(table.size(0), rate.defined() ? rate.size(0) : 1);
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < 3; ++axis) {
    at::Tensor position = table.select(2, columns[axis]).to(at::kDouble);  // [1 or B, S]
    if (axis == 0 && rate.defined())
      position = position * (rate.dim() == 1 ? rate.unsqueeze(1) : rate).to(at::kDouble);
    angles.push_back(
        rope_angles(position.expand({batch, -1}), channels[axis], rope_theta(scale[axis], channels[axis])));
  }
  at::Tensor angle = at::cat(angles, -1);
  for (int i = 0; i < head_dims; ++i) angle = angle.unsqueeze(2);
  const auto type = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {angle.cos().to(type), angle.sin().to(type),
          rate.defined() && rate.dim() == 2 && rate.size(1) == 1 ? rate.flatten().to(at::kDouble)
          : rate.defined()                                       ? rate.to(at::kDouble)
                                                                 : rate};
}

// x [B, S, heads..., d], rotated; in x's dtype.
inline at::Tensor rope(const at::Tensor& x, const Turns& turns) {
  const auto half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * turns.cos - b * turns.sin, b * turns.cos + a * turns.sin}, -1).to(x.scalar_type());
}

}  // namespace kinora

KINORA_SDK_END
