// Calls kernels/cuda with tensors, for the table of kinora/abi/cuda.h: checks them, allocates the results and
// enqueues the kernels on the current stream of x's device, without waiting. float32 or bfloat16, all of one
// dtype and device; other dtypes: Error(KINORA_ERROR_UNSUPPORTED), tensors that do not match:
// Error(KINORA_ERROR_INVALID). No autograd graph.
#pragma once
#include <array>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/cuda.h"

namespace kinora::core {

// x [B, S, D], scale and shift [1 or B, 1 or S, D] -> y of x's shape; mean and 1 / deviation, float32 [B, S].
std::array<at::Tensor, 3> modulate_on_gpu(const at::Tensor& x, const at::Tensor& scale,
                                          const at::Tensor& shift, double eps);
// -> gradients of x, scale and shift.
std::array<at::Tensor, 3> modulate_backward_on_gpu(const at::Tensor& grad, const at::Tensor& x,
                                                   const at::Tensor& scale, const at::Tensor& shift,
                                                   const at::Tensor& mean, const at::Tensor& rstd);

// x, y [B, S, D], gate [1 or B, 1 or S, D] -> x + gate * y.
at::Tensor gated_on_gpu(const at::Tensor& x, const at::Tensor& y, const at::Tensor& gate);
// -> gradients of y and gate.
std::array<at::Tensor, 2> gated_backward_on_gpu(const at::Tensor& grad, const at::Tensor& y,
                                                const at::Tensor& gate);

// x [..., D], bias [D] -> GELU of x + bias, exact or with tanh.
at::Tensor gelu_on_gpu(const at::Tensor& x, const at::Tensor& bias, bool exact);
// -> gradients of x and bias.
std::array<at::Tensor, 2> gelu_backward_on_gpu(const at::Tensor& grad, const at::Tensor& x,
                                               const at::Tensor& bias, bool exact);

struct HeadsOf {
  at::Tensor x, weight;  // [B, S, H, d] or [B, S, G, n, d], d even and at most 512; [d], undefined: no norm
  at::Tensor cos, sin;   // float32 [1 or B, S, d / 2]; both undefined: no rotation
  bool halves;           // rotary pairs (i, i + d / 2), else (2 i, 2 i + 1)
};
// -> y of x's shape; 1 / root of the mean square, float32 of x's shape without d, undefined without a weight.
std::array<at::Tensor, 2> norm_rope_on_gpu(const HeadsOf& in, double eps);
// Writes the gradient of x to grad_x, whose heads are dense, and returns the weight's, undefined without one.
// Without a weight in.x and rstd may be undefined.
at::Tensor norm_rope_backward_on_gpu(const at::Tensor& grad, const HeadsOf& in, const at::Tensor& rstd,
                                     const at::Tensor& grad_x);

// Merges `more`, the result for further keys, into out: [B, S, H, d]; sums [B, S, H]. float32.
void merge_attention_on_gpu(const at::Tensor& out, const at::Tensor& log_sum, const at::Tensor& more,
                            const at::Tensor& more_log_sum);

// Changes all but the gradient in place; float32, contiguous, of one size.
void adamw_on_gpu(const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& first,
                  const at::Tensor& second, const std::vector<at::Tensor>& averages,
                  const kinora_cuda_adamw&);

}  // namespace kinora::core
