#include "kernels/torch/attention_block.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "kernels/cpu/attention.hpp"
#include "kernels/torch/attention_heads.hpp"
#include "kernels/torch/gpu.hpp"

namespace kinora {
namespace {

using at::Tensor;

Tensor wide(const Tensor& x) { return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat); }

// Chooses the implementation for a block. On the CPU, for operands that are float32 or float64 by then.
enum class Backend { kernel, flash, plain };
Backend way_of(const Tensor& q, const Tensor& v, const Tensor& mask) {
  if (!q.is_cpu() || v.size(3) != q.size(3)) return Backend::plain;
  return q.scalar_type() == at::kFloat && !mask.defined() && has_attention() ? Backend::kernel
                                                                             : Backend::flash;
}

// The float32 kernel of kernels/cpu. Its sums are logarithms to base 2, [B, H, S].
AttentionBlock by_kernel(const Tensor& q_in, const Tensor& k, const Tensor& v, double scale) {
  const Tensor q = with_dense_heads(q_in), out = at::empty(q.sizes(), q.options()),
               sums = at::empty({q.size(0), q.size(2), q.size(1)}, q.options());
  attention_of_heads(q, with_dense_heads(k), with_dense_heads(v), scale, out, sums);
  return {out, (sums * std::log(2.0)).transpose(1, 2)};
}

AttentionGradient by_kernel_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionBlock& all, double scale) {
  const auto like = [](const Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const AttentionGradient made{like(q), like(k), like(v)};
  attention_of_heads_backward(with_dense_heads(q), with_dense_heads(k), with_dense_heads(v), scale,
                              with_dense_heads(all.out),
                              (all.log_sum.transpose(1, 2) / std::log(2.0)).contiguous(),
                              with_dense_heads(grad), made.q, made.k, made.v);
  return made;
}

// libtorch's blocked attention for CPUs; it supports masks and float64.
std::optional<Tensor> added(const Tensor& mask, const Tensor& like) {
  if (!mask.defined()) return std::nullopt;
  return at::zeros(mask.sizes(), like.options()).masked_fill_(~mask, -INFINITY).unsqueeze(1);
}
Tensor heads_first(const Tensor& x) { return x.transpose(1, 2); }

AttentionBlock by_flash(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Tensor& mask) {
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads_first(q), heads_first(k), heads_first(v), 0.0, false, added(mask, q), scale);
  Tensor log_sum = heads_first(sums);
  if (mask.defined()) log_sum = log_sum.masked_fill(~mask.any(2).unsqueeze(2), kSeenNothing);
  return {heads_first(out), log_sum};
}

AttentionGradient by_flash_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionBlock& all, double scale, const Tensor& mask) {
  auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      heads_first(grad), heads_first(q), heads_first(k), heads_first(v), heads_first(all.out),
      heads_first(all.log_sum), 0.0, false, added(mask, q), scale);
  return {heads_first(gq), heads_first(gk), heads_first(gv)};
}

// Scores of some queries, hidden ones at -inf: [B, H, rows, L].
Tensor scores(const Tensor& q, const Tensor& k, double scale, const Tensor& mask) {
  const Tensor s = at::matmul(heads_first(q), k.permute({0, 2, 3, 1})) * scale;
  return mask.defined() ? s.masked_fill(~mask.unsqueeze(1), -INFINITY) : s;
}
// Calls f(first, count) over the queries, in pieces whose scores stay small.
template <class F>
void in_pieces(const Tensor& q, const Tensor& k, F f) {
  constexpr int64_t most = int64_t{1} << 24;
  const int64_t S = q.size(1), row = std::max<int64_t>(q.size(0) * q.size(2) * k.size(1), 1),
                rows = std::clamp<int64_t>(most / row, 1, std::max<int64_t>(S, 1));
  for (int64_t first = 0; first < S; first += rows) f(first, std::min(rows, S - first));
}
Tensor rows_of(const Tensor& mask, int64_t first, int64_t count) {
  return mask.defined() ? mask.narrow(1, first, count) : mask;
}

}  // namespace

AttentionBlock reference::attention_block(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                                          double scale, const Tensor& mask) {
  const Tensor q = wide(q_in), k = wide(k_in), v = wide(v_in);
  const auto made = no_attention(q, v.size(3));
  in_pieces(q, k, [&](int64_t first, int64_t count) {
    const Tensor s = scores(q.narrow(1, first, count), k, scale, rows_of(mask, first, count));
    const Tensor sum = at::logsumexp(s, 3).clamp_min(kSeenNothing);
    made.out.narrow(1, first, count)
        .copy_(heads_first(at::matmul(at::exp(s - sum.unsqueeze(3)), heads_first(v))));
    made.log_sum.narrow(1, first, count).copy_(heads_first(sum));
  });
  return made;
}

AttentionGradient reference::attention_block_backward(const Tensor& grad_in, const Tensor& q_in,
                                                      const Tensor& k_in, const Tensor& v_in,
                                                      const AttentionBlock& all, double scale,
                                                      const Tensor& mask) {
  const Tensor q = wide(q_in), k = wide(k_in), v = wide(v_in), grad = wide(grad_in);
  const AttentionGradient made{at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  in_pieces(q, k, [&](int64_t first, int64_t count) {
    const auto some = [&](const Tensor& x) { return heads_first(x.narrow(1, first, count)); };
    const Tensor s = scores(q.narrow(1, first, count), k, scale, rows_of(mask, first, count)),
                 p = at::exp(s - some(all.log_sum).unsqueeze(3)), g = some(grad),
                 own = (g * some(all.out)).sum(3, true),
                 ds = p * (at::matmul(g, heads_first(v).transpose(2, 3)) - own) * scale;
    made.q.narrow(1, first, count).copy_(heads_first(at::matmul(ds, heads_first(k))));
    made.k.add_(heads_first(at::matmul(ds.transpose(2, 3), some(q))));
    made.v.add_(heads_first(at::matmul(p.transpose(2, 3), g)));
  });
  return made;
}

AttentionBlock attention_block(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, double scale,
                               const Tensor& mask) {
  const Tensor q = wide(q_in), k = wide(k_in), v = wide(v_in);
  switch (way_of(q, v, mask)) {
    case Backend::kernel:
      return by_kernel(q, k, v, scale);
    case Backend::flash:
      return by_flash(q, k, v, scale, mask);
    default:
      return reference::attention_block(q, k, v, scale, mask);
  }
}

AttentionGradient attention_block_backward(const Tensor& grad_in, const Tensor& q_in, const Tensor& k_in,
                                           const Tensor& v_in, const AttentionBlock& all, double scale,
                                           const Tensor& mask) {
  const Tensor q = wide(q_in), k = wide(k_in), v = wide(v_in), grad = wide(grad_in);
  switch (way_of(q, v, mask)) {
    case Backend::kernel:
      return by_kernel_backward(grad, q, k, v, all, scale);
    case Backend::flash:
      return by_flash_backward(grad, q, k, v, all, scale, mask);
    default:
      return reference::attention_block_backward(grad, q, k, v, all, scale, mask);
  }
}

AttentionBlock no_attention(const Tensor& q, int64_t v_size) {
  const auto options = q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const int64_t B = q.size(0), S = q.size(1), H = q.size(2);
  return {at::zeros({B, S, H, v_size}, options), at::full({B, S, H}, kSeenNothing, options)};
}

void merge(const AttentionBlock& all, const AttentionBlock& more) {
  if (all.out.stride(3) == 1 && gpu::fits({all.out, all.log_sum, more.out, more.log_sum}))
    return gpu::merge_attention(all.out, all.log_sum, more.out, more.log_sum);
  const Tensor weight = at::sigmoid(more.log_sum - all.log_sum).unsqueeze(3);
  all.out.add_((more.out - all.out).mul_(weight));
  all.log_sum.copy_(at::logaddexp(all.log_sum, more.log_sum));
}

}  // namespace kinora
