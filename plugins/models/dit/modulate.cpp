#include "plugins/models/dit/modulate.hpp"

#include <ATen/ATen.h>

#include "kernels/torch/modulate.hpp"
#include "kinora/videos.hpp"

namespace kinora::dit {

using at::Tensor;

AdaLn::AdaLn(const Declare& declare, int64_t width, int64_t rank, int64_t parts) : parts_(parts) {
  const auto inside = declare.in("adaLN_modulation");
  if (rank > 0) down_ = inside.linear("1", rank, width);
  up_ = inside(rank > 0 ? "2.weight" : "1.weight", {parts * width, rank > 0 ? rank : width}, Init::zeros());
}

std::vector<Tensor> AdaLn::operator()(const Ctx& ctx, const Tensor& active) const {
  return ctx.linear(down_ ? ctx.linear(active, down_, 0, 0) : active, up_, 0, 0).chunk(parts_, 2);
}

Rows rows_of(const std::vector<Tensor>& parts, size_t first, const Tensor& row) {
  return {at_rows(parts[first], row), at_rows(parts[first + 1], row),
          first + 2 < parts.size() ? at_rows(parts[first + 2], row) : Tensor()};
}

Tensor modulate(const Tensor& x, const Rows& rows) {
  return kinora::modulate(x, rows.shift, rows.scale, 1e-6);
}

Tensor gated(const Tensor& x, const Tensor& y, const Rows& rows) { return kinora::gated(x, y, rows.gate); }

}  // namespace kinora::dit
