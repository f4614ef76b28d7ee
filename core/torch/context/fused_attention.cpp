#include "core/torch/context/fused_attention.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/cpu/attention.hpp"
#include "kernels/torch/node.hpp"
#include "kernels/torch/parallel.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor with_dense_heads(const Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }
template <class T>
HeadsOf<T> heads_of(const Tensor& x) {
  return {x.data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}
Heads in(const Tensor& x) { return heads_of<const float>(x); }
HeadsOut out_of(const Tensor& x) { return heads_of<float>(x); }

AttentionShape shape_of(const Tensor& q, const Tensor& k, double scale) {
  return {q.size(1), k.size(1), q.size(3), scale};
}

// A head's queries are cut in more pieces only if there are fewer heads than threads: each piece packs the
// keys.
void forward(const AttentionShape& n, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
             const Tensor& sums) {
  const int64_t H = q.size(2), heads = q.size(0) * H;
  const int64_t cuts =
      std::clamp<int64_t>(at::get_num_threads() / std::max<int64_t>(heads, 1), 1, (n.queries + 95) / 96);
  in_parallel(heads * cuts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const HeadIndex at{i / cuts / H, i / cuts % H};
      attention_forward(n, in(q), in(k), in(v), at, i % cuts * n.queries / cuts,
                        (i % cuts + 1) * n.queries / cuts, out_of(out),
                        sums.data_ptr<float>() + i / cuts * n.queries);
    }
  });
}

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        double scale) {
    const Tensor q = with_dense_heads(q_in), k = with_dense_heads(k_in), v = with_dense_heads(v_in);
    const Tensor out = at::empty(q.sizes(), q.options().memory_format(at::MemoryFormat::Contiguous)),
                 sums = at::empty({q.size(0), q.size(2), q.size(1)}, out.options());
    core::forward(shape_of(q, k, scale), q, k, v, out, sums);
    ctx->save_for_backward({q, k, v, out, sums});
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &sums = saved[4];
    const Tensor grad = with_dense_heads(grads[0]);
    const auto n = shape_of(q, k, ctx->saved_data["scale"].toDouble());
    const auto like = [&](const Tensor& x) { return at::empty(x.sizes(), out.options()); };
    const Tensor gq = like(q), gk = like(k), gv = like(v);
    const int64_t H = q.size(2);
    in_parallel(q.size(0) * H, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        attention_backward(n, in(q), in(k), in(v), in(out), sums.data_ptr<float>() + i * n.queries, in(grad),
                           {i / H, i % H}, out_of(gq), out_of(gk), out_of(gv));
    });
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
