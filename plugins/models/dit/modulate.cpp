#include "plugins/models/dit/modulate.hpp"

#include <ATen/ATen.h>

#include "kernels/torch/modulate.hpp"
#include "kinora/videos.hpp"

namespace kinora::dit {

using at::Tensor;

AdaLn modulation(const Declare& declare, const Config& c, int64_t parts) {
  return {declare.in("adaLN_modulation"), {"1", "2"}, c.width(), c.adaln_lora, parts};
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
