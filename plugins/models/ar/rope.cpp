#include "plugins/models/ar/rope.hpp"

namespace kinora::ar {
namespace {

using at::Tensor;

// position [1 or B, S] -> [1 or B, S, n / 2]
Tensor angles(const Tensor& position, int64_t n, double theta) {
  const Tensor frequency =
      at::pow(theta, at::arange(0, n, 2, position.options().dtype(at::kDouble)) / -static_cast<double>(n));
  return position.to(at::kDouble).unsqueeze(-1) * frequency;
}

}  // namespace

Turns rope_turns(const Tensor& index, int64_t head_dim, double theta, int64_t rows, int64_t cols) {
  Tensor angle;
  if (rows == 0) {
    angle = angles(index, head_dim, theta);
  } else {
    const int64_t space = head_dim / 6 * 2, area = rows * cols;
    const Tensor code = (index - 1).clamp_min(0), place = code.remainder(area);
    angle = at::cat(
        {angles(at::floor_divide(code, area), head_dim - 2 * space, theta),
         angles(at::floor_divide(place, cols), space, theta), angles(place.remainder(cols), space, theta)},
        -1);
  }
  angle = angle.unsqueeze(2);
  return {angle.cos(), angle.sin()};
}

}  // namespace kinora::ar
