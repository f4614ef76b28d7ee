#include "core/torch/context/fused_attention.hpp"

#include <ATen/ATen.h>

#include "kernels/cpu/attention.hpp"
#include "kernels/torch/attention_heads.hpp"
#include "kernels/torch/node.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        double scale) {
    const Tensor q = with_dense_heads(q_in), k = with_dense_heads(k_in), v = with_dense_heads(v_in);
    const Tensor out = at::empty(q.sizes(), q.options().memory_format(at::MemoryFormat::Contiguous)),
                 sums = at::empty({q.size(0), q.size(2), q.size(1)}, out.options());
    attention_of_heads(q, k, v, scale, out, sums);
    ctx->save_for_backward({q, k, v, out, sums});
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &sums = saved[4];
    const auto like = [&](const Tensor& x) { return at::empty(x.sizes(), out.options()); };
    const Tensor gq = like(q), gk = like(k), gv = like(v);
    attention_of_heads_backward(q, k, v, ctx->saved_data["scale"].toDouble(), out, sums,
                                with_dense_heads(grads[0]), gq, gk, gv);
    return node::once({gq, gk, gv, {}}, "attention");
  }
};

}  // namespace

bool can_fuse(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto fits = [](const Tensor& x) {
    return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0;
  };
  return fits(q) && fits(k) && fits(v) && v.size(3) == q.size(3) && has_attention();
}

Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  return FusedAttention::apply(q, k, v, scale);
}

}  // namespace kinora::core
