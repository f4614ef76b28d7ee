// Calls kernels/cuda with tensors (kinora/abi/cuda.h).
#pragma once
#include <array>

#include <ATen/core/Tensor.h>

namespace kinora::core {

std::array<at::Tensor, 3> modulate_on_gpu(const at::Tensor& x, const at::Tensor& scale,
                                          const at::Tensor& shift, double eps);
std::array<at::Tensor, 3> modulate_backward_on_gpu(const at::Tensor& grad, const at::Tensor& x,
                                                   const at::Tensor& scale, const at::Tensor& shift,
                                                   const at::Tensor& mean, const at::Tensor& rstd);

// Undefined cos and sin: no rotation.
struct HeadsOf {
  at::Tensor x, weight, cos, sin;
  bool halves;
};
std::array<at::Tensor, 2> norm_rope_on_gpu(const HeadsOf& in, double eps);
std::array<at::Tensor, 2> norm_rope_backward_on_gpu(const at::Tensor& grad, const HeadsOf& in,
                                                    const at::Tensor& rstd);

}  // namespace kinora::core
