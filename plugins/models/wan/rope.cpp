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

}  // namespace kinora::wan
