#include "core/cuda/kernels.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/cuda/modulate.hpp"
#include "kernels/cuda/norm_rope.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

cuda::Number number_of(const Tensor& x, const char* kernel) {
  if (x.is_cuda() && x.scalar_type() == at::kFloat) return cuda::Number::float32;
  if (x.is_cuda() && x.scalar_type() == at::kBFloat16) return cuda::Number::bfloat16;
  raise(KINORA_ERROR_UNSUPPORTED, "{}: expected float32 or bfloat16 on a GPU, got {} on {}", kernel,
        c10::str(x.scalar_type()), c10::str(x.device()));
}

void check_like(const Tensor& t, const Tensor& x, bool fits, const char* kernel, const char* name) {
  if (fits && t.scalar_type() == x.scalar_type() && t.device() == x.device()) return;
  raise(KINORA_ERROR_INVALID, "{}: {} {} {} on {} does not match x {} {} on {}", kernel, name,
        c10::str(t.scalar_type()), c10::str(t.sizes()), c10::str(t.device()), c10::str(x.scalar_type()),
        c10::str(x.sizes()), c10::str(x.device()));
}

Tensor dense(const Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }
Tensor statistics(at::IntArrayRef shape, const Tensor& x) {
  return at::empty(shape, x.options().dtype(at::kFloat));
}
cudaStream_t stream_of(const Tensor& x) { return c10::cuda::getCurrentCUDAStream(x.device().index()); }

// [1 or B, 1 or S, D]: stride 0 along broadcast dimensions.
cuda::RowsIn rows_of(const Tensor& t) {
  return {t.data_ptr(), t.size(0) == 1 ? 0 : t.stride(0), t.size(1) == 1 ? 0 : t.stride(1)};
}
cuda::HeadsIn heads_of(const Tensor& t) { return {t.data_ptr(), t.stride(0), t.stride(1), t.stride(2)}; }

cuda::ModulateShape modulate_shape(const Tensor& x, const Tensor& scale, const Tensor& shift, double eps) {
  const auto number = number_of(x, "modulate");
  if (x.dim() != 3) raise(KINORA_ERROR_INVALID, "modulate: x {} is not [B, S, D]", c10::str(x.sizes()));
  const auto check = [&](const Tensor& t, const char* name) {
    const bool fits = t.dim() == 3 && (t.size(0) == 1 || t.size(0) == x.size(0)) &&
                      (t.size(1) == 1 || t.size(1) == x.size(1)) && t.size(2) == x.size(2);
    check_like(t, x, fits, "modulate", name);
  };
  check(scale, "scale");
  check(shift, "shift");
  if (scale.sizes() != shift.sizes())
    raise(KINORA_ERROR_INVALID, "modulate: scale {} and shift {} differ", c10::str(scale.sizes()),
          c10::str(shift.sizes()));
  return {x.size(0), x.size(1), x.size(2), static_cast<float>(eps), number};
}

cuda::NormRopeShape norm_rope_shape(const HeadsOf& in, double eps) {
  const Tensor& x = in.x;
  const auto number = number_of(x, "norm_rope");
  if (x.dim() != 4 || x.size(3) % 2 || x.size(3) > cuda::kMostHeadWidth)
    raise(KINORA_ERROR_UNSUPPORTED, "norm_rope: x {} is not [B, S, H, d] with an even d of at most {}",
          c10::str(x.sizes()), cuda::kMostHeadWidth);
  check_like(in.weight, x, in.weight.dim() == 1 && in.weight.numel() == x.size(3), "norm_rope", "weight");
  for (const Tensor* t : {&in.cos, &in.sin})
    if (in.cos.defined() != in.sin.defined() ||
        (t->defined() &&
         (t->dim() != 3 || (t->size(0) != 1 && t->size(0) != x.size(0)) || t->size(1) != x.size(1) ||
          t->size(2) != x.size(3) / 2 || t->scalar_type() != at::kFloat || t->device() != x.device())))
      raise(KINORA_ERROR_INVALID,
            "norm_rope: cos and sin are not both float32 [1 or {}, {}, {}] on x's device", x.size(0),
            x.size(1), x.size(3) / 2);
  return {x.size(0), x.size(1), x.size(2), x.size(3), static_cast<float>(eps), number, in.halves};
}

// The tensors that the kernel reads, kept alive until it is enqueued.
struct Angles {
  explicit Angles(const HeadsOf& in) {
    if (!in.cos.defined()) return;
    cos = in.cos.contiguous();
    sin = in.sin.contiguous();
    turns = {cos.data_ptr<float>(), sin.data_ptr<float>(), cos.size(0) == 1 ? 0 : cos.stride(0)};
  }
  Tensor cos, sin;
  cuda::Turns turns{};
};

}  // namespace

std::array<Tensor, 3> modulate_on_gpu(const Tensor& x, const Tensor& scale, const Tensor& shift, double eps) {
  const auto n = modulate_shape(x, scale, shift, eps);
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor in = dense(x), by = dense(scale), plus = dense(shift);
  const Tensor y = at::empty(x.sizes(), x.options()), mean = statistics({n.samples, n.tokens}, x),
               rstd = statistics({n.samples, n.tokens}, x);
  C10_CUDA_CHECK(cuda::modulate(n, {in.data_ptr(), in.stride(0), in.stride(1)}, rows_of(by), rows_of(plus),
                                y.data_ptr(), mean.data_ptr<float>(), rstd.data_ptr<float>(), stream_of(x)));
  return {y, mean, rstd};
}

std::array<Tensor, 3> modulate_backward_on_gpu(const Tensor& grad, const Tensor& x, const Tensor& scale,
                                               const Tensor& shift, const Tensor& mean, const Tensor& rstd) {
  const auto n = modulate_shape(x, scale, shift, 0);
  check_like(grad, x, grad.sizes() == x.sizes(), "modulate", "the gradient");
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor g = dense(grad), in = dense(x), by = dense(scale), grad_x = at::empty(x.sizes(), x.options());
  const cuda::RowsIn of_grad{g.data_ptr(), g.stride(0), g.stride(1)},
      of_x{in.data_ptr(), in.stride(0), in.stride(1)};
  const auto *m = mean.data_ptr<float>(), *r = rstd.data_ptr<float>();
  C10_CUDA_CHECK(
      cuda::modulate_backward(n, of_grad, of_x, rows_of(by), m, r, grad_x.data_ptr(), stream_of(x)));
  const cuda::Broadcast over{scale.size(0) == 1 && n.samples > 1, scale.size(1) == 1 && n.tokens > 1};
  const Tensor partial = statistics({cuda::modulate_partial(n, over)}, x),
               grad_scale = statistics(scale.sizes(), x), grad_shift = statistics(scale.sizes(), x);
  C10_CUDA_CHECK(cuda::modulate_backward_sums(n, over, of_grad, of_x, m, r, partial.data_ptr<float>(),
                                              grad_scale.data_ptr<float>(), grad_shift.data_ptr<float>(),
                                              stream_of(x)));
  return {grad_x, grad_scale.to(x.scalar_type()), grad_shift.to(x.scalar_type())};
}

std::array<Tensor, 2> norm_rope_on_gpu(const HeadsOf& of, double eps) {
  const auto n = norm_rope_shape(of, eps);
  const c10::cuda::CUDAGuard device(of.x.device());
  const Tensor x = dense(of.x), weight = of.weight.contiguous(), y = at::empty(x.sizes(), x.options()),
               rstd = statistics({n.samples, n.tokens, n.heads}, x);
  const Angles angles(of);
  C10_CUDA_CHECK(cuda::norm_rope(n, heads_of(x), weight.data_ptr(), angles.turns, y.data_ptr(),
                                 rstd.data_ptr<float>(), stream_of(x)));
  return {y, rstd};
}

std::array<Tensor, 2> norm_rope_backward_on_gpu(const Tensor& grad, const HeadsOf& of, const Tensor& rstd) {
  const auto n = norm_rope_shape(of, 0);
  check_like(grad, of.x, grad.sizes() == of.x.sizes(), "norm_rope", "the gradient");
  const c10::cuda::CUDAGuard device(of.x.device());
  const Tensor x = dense(of.x), g = dense(grad), weight = of.weight.contiguous(),
               grad_x = at::empty(x.sizes(), x.options()),
               partial = statistics({cuda::norm_rope_partial(n)}, x), grad_weight = statistics({n.width}, x);
  const Angles angles(of);
  C10_CUDA_CHECK(cuda::norm_rope_backward(
      n, heads_of(g), heads_of(x), weight.data_ptr(), angles.turns, rstd.data_ptr<float>(), grad_x.data_ptr(),
      partial.data_ptr<float>(), grad_weight.data_ptr<float>(), stream_of(x)));
  return {grad_x, grad_weight.to(x.scalar_type())};
}

}  // namespace kinora::core
