#include "kernels/torch/node.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

namespace kinora::node {

// As torch.autograd.function.once_differentiable.
variable_list once(variable_list grads, const char* what) {
  if (!at::GradMode::is_enabled()) return grads;
  for (auto& g : grads)
    if (g.defined()) g = g.detach().set_requires_grad(true);
  const auto error = std::make_shared<torch::autograd::DelayedError>(
      std::string(what) + " has one derivative in float32; compute in float64 for a second",
      static_cast<int64_t>(grads.size()));
  return (*error)(std::move(grads));
}

at::Tensor total(const at::Tensor& sums) {
  const int64_t width = sums.size(-1), count = sums.size(-2), batch = sums.dim() == 3 ? sums.size(0) : 1;
  const at::Tensor out = at::empty({batch, width}, sums.options());
  for (int64_t b = 0; b < batch; ++b)
    sum_rows({count, width}, sums.data_ptr<float>() + b * count * width, out.data_ptr<float>() + b * width);
  return sums.dim() == 3 ? out : out[0];
}

}  // namespace kinora::node
