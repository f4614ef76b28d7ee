#include "kernels/torch/gelu.hpp"

#include <ATen/ATen.h>

#include "kernels/torch/gpu.hpp"
#include "kernels/torch/node.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace node;

const float* data_of(const Tensor& bias) { return bias.defined() ? bias.data_ptr<float>() : nullptr; }

struct BiasGelu : torch::autograd::Function<BiasGelu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given, const Maybe& given_bias, int64_t form) {
    const Tensor x = given.contiguous(), y = at::empty(x.sizes(), x.options()), bias = tensor_of(given_bias);
    const int64_t width = x.size(-1);
    Blocks{1, x.numel() / width}.each([&](int64_t, int64_t, int64_t first, int64_t count) {
      gelu_forward({count, width}, static_cast<Gelu>(form), x.data_ptr<float>() + first * width,
                   data_of(bias), y.data_ptr<float>() + first * width);
    });
    ctx->save_for_backward({x, bias});
    ctx->saved_data["form"] = form;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &bias = saved[1];
    const auto form = static_cast<Gelu>(ctx->saved_data["form"].toInt());
    const int64_t width = x.size(-1);
    const Blocks blocks{1, x.numel() / width};
    const Tensor grad = grads[0].contiguous(), grad_x = at::empty(x.sizes(), x.options()),
                 sums = bias.defined() ? at::empty({blocks.count(), width}, x.options()) : Tensor();
    blocks.each([&](int64_t i, int64_t, int64_t first, int64_t count) {
      const int64_t at = first * width;
      gelu_backward({count, width}, form, grad.data_ptr<float>() + at, x.data_ptr<float>() + at,
                    data_of(bias), grad_x.data_ptr<float>() + at,
                    bias.defined() ? sums.data_ptr<float>() + i * width : nullptr);
    });
    return once({grad_x, bias.defined() ? total(sums) : Tensor(), {}}, "gelu");
  }
};

}  // namespace

Tensor gelu(const Tensor& x, const Tensor& bias, Gelu form) {
  const bool has = bias.defined();
  const bool row = has && x.dim() > 0 && bias.dim() == 1 && bias.size(0) == x.size(-1);
  if (fits(x) && x.dim() > 0 && (!has || (row && fits(bias))))
    return apply<BiasGelu>(x, maybe(has ? bias.contiguous() : bias), static_cast<int64_t>(form));
  // Without a bias ATen's operation is one kernel too.
  if (row && gpu::fits({x, bias})) return gpu::gelu(x, bias, form);
  return at::gelu(has ? x + bias : x, form == Gelu::exact ? "none" : "tanh");
}

}  // namespace kinora
