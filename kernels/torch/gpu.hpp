// The operations of this folder on a GPU: kernels of libkinora_cuda (kinora/abi/cuda.h) as nodes of the
// autograd graph. float32 or bfloat16, arithmetic in float32; one derivative, always the same bits. Shapes
// are those of modulate.hpp, gelu.hpp and norm_rope.hpp; the caller checks them.
#pragma once
#include <initializer_list>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include "kernels/cpu/gelu.hpp"
#include "kinora/abi/cuda.h"

namespace kinora::gpu {

// [any-thread] The functions of libkinora_cuda; null until libkinora_torch has opened it.
const kinora_cuda_api* library();

// [any-thread] Whether the kernels can read the tensors: not empty, of one dtype that they support and on one
// GPU. Undefined ones do not count, except for the first. False until libkinora_torch has opened
// libkinora_cuda, which it does when a job chooses a GPU; false in a program that gives its plugins no host.
bool fits(std::initializer_list<at::Tensor> all);
// The same for norm_rope: an even d of at most 512, and angles that are float32 and not differentiated.
bool fits_heads(const at::Tensor& x, const at::Tensor& weight_q, const at::Tensor& weight_k,
                const at::Tensor& cos, const at::Tensor& sin);

// shift and scale of one shape.
at::Tensor modulate(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale, double epsilon);
at::Tensor gated(const at::Tensor& x, const at::Tensor& y, const at::Tensor& gate);
at::Tensor gelu(const at::Tensor& x, const at::Tensor& bias, Gelu form);

// x [B, S, G, n, d], cos and sin [1 or B, S, d / 2] -> queries [B, S, G, queries, d], a key [B, S, G, 1, d]
// and a value, a view of x: those that exist. The gradient of x is one tensor, each part written once.
torch::autograd::variable_list norm_rope(const at::Tensor& x, const at::Tensor& weight_q,
                                         const at::Tensor& weight_k, const at::Tensor& cos,
                                         const at::Tensor& sin, bool neighbours, int64_t queries,
                                         double epsilon);

// In place, without a graph; all of one size and float32.
// out, more [B, S, H, d], log_sum, more_log_sum [B, S, H], as in attention_block.hpp.
void merge_attention(const at::Tensor& out, const at::Tensor& log_sum, const at::Tensor& more,
                     const at::Tensor& more_log_sum);
// numbers.averages and numbers.n_averages are set here.
void adamw(const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& first,
           const at::Tensor& second, const std::vector<at::Tensor>& averages, kinora_cuda_adamw numbers);

}  // namespace kinora::gpu
