#include "core/cuda/kernels.hpp"
#include "core/cuda/launch.hpp"
#include "kernels/cuda/norm_rope.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

// [B, S, H, d] or [B, S, G, n, d], d dense.
template <class Heads>
Heads heads_of(const Tensor& t) {
  return {t.data_ptr(), t.stride(0), t.stride(1), t.stride(2), t.dim() == 5 ? t.stride(3) : 0};
}

// x: in.x, or in a backward a tensor like it.
cuda::NormRopeShape norm_rope_shape(const HeadsOf& in, const Tensor& x, double eps) {
  const auto number = number_of(x, "norm_rope");
  if ((x.dim() != 4 && x.dim() != 5) || x.size(-1) % 2 || x.size(-1) > cuda::kMostHeadWidth)
    raise(KINORA_ERROR_UNSUPPORTED,
          "norm_rope: x {} is not [B, S, H, d] or [B, S, G, n, d] with an even d of at most {}",
          c10::str(x.sizes()), cuda::kMostHeadWidth);
  if (in.weight.defined())
    check_like(in.weight, x, in.weight.dim() == 1 && in.weight.numel() == x.size(-1), "norm_rope", "weight");
  for (const Tensor* t : {&in.cos, &in.sin})
    if (in.cos.defined() != in.sin.defined() ||
        (t->defined() &&
         (t->dim() != 3 || (t->size(0) != 1 && t->size(0) != x.size(0)) || t->size(1) != x.size(1) ||
          t->size(2) != x.size(-1) / 2 || t->scalar_type() != at::kFloat || t->device() != x.device())))
      raise(KINORA_ERROR_INVALID,
            "norm_rope: cos and sin are not both float32 [1 or {}, {}, {}] on x's device", x.size(0),
            x.size(1), x.size(-1) / 2);
  const int64_t heads = x.dim() == 5 ? x.size(3) : 1;
  return {x.size(0), x.size(1), x.size(2), heads, x.size(-1), static_cast<float>(eps), number, in.halves};
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

Tensor contiguous(const Tensor& t) { return t.defined() ? t.contiguous() : t; }
void* data_of(const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }
float* floats_of(const Tensor& t) { return static_cast<float*>(data_of(t)); }

}  // namespace

std::array<Tensor, 2> norm_rope_on_gpu(const HeadsOf& of, double eps) {
  const auto n = norm_rope_shape(of, of.x, eps);
  const c10::cuda::CUDAGuard device(of.x.device());
  const Tensor x = dense(of.x), weight = contiguous(of.weight), y = at::empty(x.sizes(), x.options()),
               rstd = weight.defined() ? floats(x.sizes().slice(0, x.dim() - 1), x) : Tensor();
  const Angles angles(of);
  C10_CUDA_CHECK(cuda::norm_rope(n, heads_of<cuda::HeadsIn>(x), data_of(weight), angles.turns, y.data_ptr(),
                                 floats_of(rstd), stream_of(x)));
  return {y, rstd};
}

Tensor norm_rope_backward_on_gpu(const Tensor& grad, const HeadsOf& of, const Tensor& rstd,
                                 const Tensor& grad_x) {
  const auto n = norm_rope_shape(of, grad_x, 0);
  const bool weighs = of.weight.defined();
  check_like(grad, grad_x, grad.sizes() == grad_x.sizes(), "norm_rope", "the gradient");
  if (weighs && !(of.x.defined() && rstd.defined()))
    raise(KINORA_ERROR_INVALID, "norm_rope: with a weight the backward needs x and 1 / rms");
  if (weighs) check_like(of.x, grad_x, of.x.sizes() == grad_x.sizes(), "norm_rope", "x of the backward");
  if (grad_x.stride(-1) != 1)
    raise(KINORA_ERROR_INVALID, "norm_rope: the heads of grad_x are not contiguous, its strides are {}",
          c10::str(grad_x.strides()));
  const c10::cuda::CUDAGuard device(grad_x.device());
  const Tensor g = dense(grad), x = weighs ? dense(of.x) : Tensor(), weight = contiguous(of.weight),
               partial = weighs ? floats({cuda::norm_rope_partial(n)}, grad_x) : Tensor(),
               grad_weight = weighs ? floats({n.width}, grad_x) : Tensor();
  const Angles angles(of);
  C10_CUDA_CHECK(cuda::norm_rope_backward(
      n, heads_of<cuda::HeadsIn>(g), weighs ? heads_of<cuda::HeadsIn>(x) : cuda::HeadsIn{}, data_of(weight),
      angles.turns, floats_of(rstd), heads_of<cuda::HeadsOut>(grad_x), floats_of(partial),
      floats_of(grad_weight), stream_of(grad_x)));
  return weighs ? grad_weight.to(grad_x.scalar_type()) : Tensor();
}

}  // namespace kinora::core
