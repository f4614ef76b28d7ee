#include "kernels/torch/attention_heads.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/cpu/attention.hpp"
#include "kernels/torch/parallel.hpp"

namespace kinora {
namespace {

using at::Tensor;

template <class T>
HeadsOf<T> heads_of(const Tensor& x) {
  return {x.data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}
Heads in(const Tensor& x) { return heads_of<const float>(x); }
HeadsOut out_of(const Tensor& x) { return heads_of<float>(x); }
AttentionShape shape_of(const Tensor& q, const Tensor& k, double scale) {
  return {q.size(1), k.size(1), q.size(3), scale};
}

}  // namespace

Tensor with_dense_heads(const Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

// A head's queries are split into more pieces only if there are fewer heads than threads, since each piece
// packs the keys.
void attention_of_heads(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Tensor& out,
                        const Tensor& sums) {
  const auto n = shape_of(q, k, scale);
  const int64_t H = q.size(2), heads = q.size(0) * H;
  const int64_t cuts =
      std::clamp<int64_t>(at::get_num_threads() / std::max<int64_t>(heads, 1), 1, (n.queries + 95) / 96);
  in_parallel(heads * cuts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      attention_forward(n, in(q), in(k), in(v), {i / cuts / H, i / cuts % H}, i % cuts * n.queries / cuts,
                        (i % cuts + 1) * n.queries / cuts, out_of(out),
                        sums.data_ptr<float>() + i / cuts * n.queries);
  });
}

void attention_of_heads_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                 const Tensor& out, const Tensor& sums, const Tensor& grad,
                                 const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v) {
  const auto n = shape_of(q, k, scale);
  const int64_t H = q.size(2);
  in_parallel(q.size(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      attention_backward(n, in(q), in(k), in(v), in(out), sums.data_ptr<float>() + i * n.queries, in(grad),
                         {i / H, i % H}, out_of(grad_q), out_of(grad_k), out_of(grad_v));
  });
}

}  // namespace kinora
