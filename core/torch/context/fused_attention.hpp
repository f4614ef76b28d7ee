// kernels/cpu/attention.hpp as a node of the autograd graph: what holds of tokens x tokens is nothing.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora::core {

// float32 on a processor that has the kernels.
bool can_fuse(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
// q [B, S, H, d], k, v [B, L, H, d], L >= 1; every query sees every key. -> [B, S, H, d]. One derivative, as
// libtorch's own fused kernels have.
at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale);

}  // namespace kinora::core
