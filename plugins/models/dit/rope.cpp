#include "plugins/models/dit/rope.hpp"

#include <algorithm>
#include <cmath>

#include "kinora/abi/context.h"

namespace kinora::dit {
namespace {

using at::Tensor;

// [n / 2] float64
Tensor frequencies(int64_t n, double scale, const Tensor& like) {
  const auto size = static_cast<double>(n);
  const double theta = scale == 1 ? 10000 : 10000 * std::pow(scale, size / (size - 2));
  return at::pow(theta, at::arange(0, n, 2, like.options().dtype(at::kDouble)) / -size);
}

}  // namespace

Turns rope_turns(const Tensor& table, int64_t head_size, const std::vector<double>& scale, const Tensor& rate,
                 const Tensor& like) {
  const int64_t space = head_size / 6 * 2, sizes[] = {head_size - 2 * space, space, space};
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  const int64_t batch = std::max(table.size(0), rate.defined() ? rate.size(0) : 1);
  std::vector<Tensor> angles;
  for (size_t axis = 0; axis < 3; ++axis) {
    Tensor position = table.select(2, columns[axis]).to(at::kDouble);  // [1 or B, S]
    if (axis == 0 && rate.defined()) position = position * rate.to(at::kDouble);
    angles.push_back(position.expand({batch, -1}).unsqueeze(-1) *
                     frequencies(sizes[axis], scale[axis], like));
  }
  const Tensor angle = at::cat(angles, -1).unsqueeze(2).unsqueeze(2);
  const auto type = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {angle.cos().to(type), angle.sin().to(type)};
}

Tensor rope(const Tensor& x, const Turns& turns) {
  const auto half = x.size(-1) / 2;
  const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * turns.cos - b * turns.sin, b * turns.cos + a * turns.sin}, -1).to(x.scalar_type());
}

}  // namespace kinora::dit
