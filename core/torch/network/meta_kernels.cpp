// Meta kernels of operators that libtorch implements on the meta device only through Python. Models and
// tokenizers need them to run there (meter_link.hpp).
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include "core/torch/network/meter_link.hpp"

namespace kinora::core {
namespace {

using at::IntArrayRef;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor of(const Tensor& like, IntArrayRef shape) { return at::empty(shape, like.options()); }

// Output, mean and reciprocal standard deviation; one of the latter two per normalised row.
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, IntArrayRef normalised, const MaybeTensor&,
                                              const MaybeTensor&, double) {
  auto rows = x.sizes().vec();
  std::fill(rows.end() - static_cast<std::ptrdiff_t>(normalised.size()), rows.end(), 1);
  return {of(x, x.sizes()), of(x, rows), of(x, rows)};
}

std::tuple<Tensor, Tensor, Tensor> group_norm(const Tensor& x, const MaybeTensor&, const MaybeTensor&,
                                              int64_t n, int64_t, int64_t, int64_t groups, double) {
  return {of(x, x.sizes()), of(x, {n, groups}), of(x, {n, groups})};
}

Tensor convolution(const Tensor& x, const Tensor& w, const MaybeTensor&, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  std::vector<int64_t> shape{x.size(0), transposed ? w.size(1) * groups : w.size(0)};
  for (size_t i = 0; i < stride.size(); ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    const int64_t reach = dilation[i] * (w.size(d) - 1), size = x.size(d);
    shape.push_back(transposed ? (size - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1
                               : (size + 2 * padding[i] - reach - 1) / stride[i] + 1);
  }
  auto y = of(x, shape);
  const double each = w.size(0) ? 2.0 * static_cast<double>(w.numel() / w.size(0)) : 0;
  count_convolution(each * static_cast<double>(transposed ? x.numel() : y.numel()));
  return y;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const auto both = at::infer_size(a.sizes(), b.sizes());
  return at::empty(at::infer_size(condition.sizes(), both),
                   a.options().dtype(at::result_type(a, b)).device(at::kMeta));
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return at::empty(at::infer_size(a.sizes(), b.sizes()),
                   a.options().dtype(at::result_type(a, b)).device(at::kMeta));
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  auto shape = x.sizes().vec();
  if (!shape.empty()) shape[static_cast<size_t>(dim < 0 ? dim + x.dim() : dim)] = index.numel();
  return of(x, shape);
}

// The softmax inside scaled_dot_product_attention where no fused kernel applies.
Tensor safe_softmax(const Tensor& x, int64_t, std::optional<at::ScalarType> dtype) {
  return at::empty(x.sizes(), x.options().dtype(dtype.value_or(x.scalar_type())));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_group_norm", group_norm);
  m.impl("convolution_overrideable", convolution);
  m.impl("floor_divide", floor_divide);
  m.impl("index_select", index_select);
  m.impl("where.self", where);
  m.impl("_safe_softmax", safe_softmax);
}

}  // namespace
}  // namespace kinora::core
