// kernels/cpu/attention.hpp as a node of the autograd graph: stores nothing of size tokens x tokens.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora::core {

// True for float32 on a processor that the kernels support.
bool can_fuse(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
// q [B, S, H, d], k, v [B, L, H, d], L >= 1; every query sees every key. -> [B, S, H, d]. Differentiable
// once, as libtorch's own fused kernels are.
at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale);

}  // namespace kinora::core
