#include "plugins/models/wan/rope.hpp"

#include "kinora/abi/context.h"

namespace kinora::wan {

using at::Tensor;

Turns rope_turns(const Tensor& table, int64_t head_dim, at::ScalarType type) {
  const int64_t space = head_dim / 6 * 2, sizes[] = {head_dim - 2 * space, space, space};
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  std::vector<Tensor> angles;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto n = static_cast<double>(sizes[axis]);
    const Tensor frequency =
        at::pow(10000.0, at::arange(0, sizes[axis], 2, table.options().dtype(at::kDouble)) / -n);
    angles.push_back(table.select(2, columns[axis]).to(at::kDouble).unsqueeze(-1) * frequency);
  }
  const Tensor angle = at::cat(angles, -1).unsqueeze(2);
  return {angle.cos().to(type), angle.sin().to(type)};
}

Tensor rope(const Tensor& x, const Turns& turns) {
  const Tensor pairs = x.unflatten(3, {-1, 2}), a = pairs.select(4, 0), b = pairs.select(4, 1);
  return at::stack({a * turns.cos - b * turns.sin, a * turns.sin + b * turns.cos}, 4)
      .flatten(3)
      .to(x.scalar_type());
}

}  // namespace kinora::wan
