// Checks of tensors, and views of them, for the functions of kernels.hpp.
#pragma once
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/cuda/rows.hpp"

namespace kinora::core {

inline cuda::Number number_of(const at::Tensor& x, const char* kernel) {
  if (x.is_cuda() && x.scalar_type() == at::kFloat) return cuda::Number::float32;
  if (x.is_cuda() && x.scalar_type() == at::kBFloat16) return cuda::Number::bfloat16;
  raise(KINORA_ERROR_UNSUPPORTED, "{}: expected float32 or bfloat16 on a GPU, got {} on {}", kernel,
        c10::str(x.scalar_type()), c10::str(x.device()));
}

inline void check_like(const at::Tensor& t, const at::Tensor& x, bool fits, const char* kernel,
                       const char* name) {
  if (fits && t.scalar_type() == x.scalar_type() && t.device() == x.device()) return;
  raise(KINORA_ERROR_INVALID, "{}: {} {} {} on {} does not match x {} {} on {}", kernel, name,
        c10::str(t.scalar_type()), c10::str(t.sizes()), c10::str(t.device()), c10::str(x.scalar_type()),
        c10::str(x.sizes()), c10::str(x.device()));
}

inline at::Tensor dense(const at::Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }
// Float32 on x's device.
inline at::Tensor floats(at::IntArrayRef shape, const at::Tensor& x) {
  return at::empty(shape, x.options().dtype(at::kFloat));
}
inline cudaStream_t stream_of(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.device().index());
}

}  // namespace kinora::core
