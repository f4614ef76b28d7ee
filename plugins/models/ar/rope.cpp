#include "plugins/models/ar/rope.hpp"

namespace kinora::ar {

using at::Tensor;

Turns rope_turns(const Tensor& index, int64_t head_dim, double theta, int64_t rows, int64_t cols) {
  Tensor angle;
  if (rows == 0) {
    angle = rope_angles(index, head_dim, theta);
  } else {
    const int64_t space = head_dim / 6 * 2, area = rows * cols;
    const Tensor code = (index - 1).clamp_min(0), place = code.remainder(area);
    angle = at::cat({rope_angles(at::floor_divide(code, area), head_dim - 2 * space, theta),
                     rope_angles(at::floor_divide(place, cols), space, theta),
                     rope_angles(place.remainder(cols), space, theta)},
                    -1);
  }
  angle = angle.unsqueeze(2);
  return {angle.cos(), angle.sin()};
}

}  // namespace kinora::ar
