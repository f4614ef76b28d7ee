// The float32 kernel of kernels/cpu/attention.hpp over all heads of tensors on the CPU, in parallel.
//
// B batch, S queries, L keys, H heads, d width of a head. q, k, v and grad have dense heads; sums float32
// [B, H, S], logarithms to base 2.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora {

// x [B, S, H, d], copied unless the numbers of a head are adjacent.
at::Tensor with_dense_heads(const at::Tensor& x);

// q [B, S, H, d], k, v [B, L, H, d] -> out of q's shape, sums.
void attention_of_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                        const at::Tensor& out, const at::Tensor& sums);

// out, sums: of the forward; grad: of out. Writes grad_q of q's shape, grad_k and grad_v of k's.
void attention_of_heads_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                                 const at::Tensor& out, const at::Tensor& sums, const at::Tensor& grad,
                                 const at::Tensor& grad_q, const at::Tensor& grad_k,
                                 const at::Tensor& grad_v);

}  // namespace kinora
