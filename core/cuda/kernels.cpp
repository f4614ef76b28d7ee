#include "core/cuda/kernels.hpp"

#include "core/cuda/launch.hpp"
#include "kernels/cuda/gated.hpp"
#include "kernels/cuda/gelu.hpp"
#include "kernels/cuda/modulate.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

// [B, S, D].
cuda::RowsIn rows_of(const Tensor& t) { return {t.data_ptr(), t.stride(0), t.stride(1)}; }
// [1 or B, 1 or S, D]: stride 0 along broadcast dimensions.
cuda::RowsIn spread(const Tensor& t) {
  return {t.data_ptr(), t.size(0) == 1 ? 0 : t.stride(0), t.size(1) == 1 ? 0 : t.stride(1)};
}
cuda::Broadcast broadcast_of(const Tensor& t, const cuda::RowsShape& n) {
  return {t.size(0) == 1 && n.samples > 1, t.size(1) == 1 && n.tokens > 1};
}

cuda::RowsShape shape_of(const Tensor& x, const char* kernel) {
  const auto number = number_of(x, kernel);
  if (x.dim() != 3) raise(KINORA_ERROR_INVALID, "{}: x {} is not [B, S, D]", kernel, c10::str(x.sizes()));
  return {x.size(0), x.size(1), x.size(2), number};
}
// t [1 or B, 1 or S, D]
void check_row(const Tensor& t, const Tensor& x, const char* kernel, const char* name) {
  const bool fits = t.dim() == 3 && (t.size(0) == 1 || t.size(0) == x.size(0)) &&
                    (t.size(1) == 1 || t.size(1) == x.size(1)) && t.size(2) == x.size(2);
  check_like(t, x, fits, kernel, name);
}

cuda::RowsShape modulate_shape(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  const auto n = shape_of(x, "modulate");
  check_row(scale, x, "modulate", "scale");
  check_row(shift, x, "modulate", "shift");
  if (scale.sizes() != shift.sizes())
    raise(KINORA_ERROR_INVALID, "modulate: scale {} and shift {} differ", c10::str(scale.sizes()),
          c10::str(shift.sizes()));
  return n;
}

// x [..., D] as rows [1, any, D].
cuda::RowsShape gelu_shape(const Tensor& x, const Tensor& bias) {
  const auto number = number_of(x, "gelu");
  check_like(bias, x, x.dim() > 0 && bias.dim() == 1 && bias.numel() == x.size(-1), "gelu", "bias");
  const int64_t width = x.size(-1);
  return {1, width ? x.numel() / width : 0, width, number};
}
cuda::GeluForm form_of(bool exact) { return exact ? cuda::GeluForm::exact : cuda::GeluForm::tanh; }

}  // namespace

std::array<Tensor, 3> modulate_on_gpu(const Tensor& x, const Tensor& scale, const Tensor& shift, double eps) {
  const auto n = modulate_shape(x, scale, shift);
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor in = dense(x), by = dense(scale), plus = dense(shift);
  const Tensor y = at::empty(x.sizes(), x.options()), mean = floats({n.samples, n.tokens}, x),
               rstd = floats({n.samples, n.tokens}, x);
  C10_CUDA_CHECK(cuda::modulate(n, static_cast<float>(eps), rows_of(in), spread(by), spread(plus),
                                y.data_ptr(), mean.data_ptr<float>(), rstd.data_ptr<float>(), stream_of(x)));
  return {y, mean, rstd};
}

std::array<Tensor, 3> modulate_backward_on_gpu(const Tensor& grad, const Tensor& x, const Tensor& scale,
                                               const Tensor& shift, const Tensor& mean, const Tensor& rstd) {
  const auto n = modulate_shape(x, scale, shift);
  check_like(grad, x, grad.sizes() == x.sizes(), "modulate", "the gradient");
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor g = dense(grad), in = dense(x), by = dense(scale), grad_x = at::empty(x.sizes(), x.options());
  const auto *m = mean.data_ptr<float>(), *r = rstd.data_ptr<float>();
  C10_CUDA_CHECK(
      cuda::modulate_backward(n, rows_of(g), rows_of(in), spread(by), m, r, grad_x.data_ptr(), stream_of(x)));
  const auto over = broadcast_of(scale, n);
  const Tensor partial = floats({2 * cuda::sum_partial(n, over)}, x), grad_scale = floats(scale.sizes(), x),
               grad_shift = floats(scale.sizes(), x);
  C10_CUDA_CHECK(cuda::modulate_backward_sums(n, over, rows_of(g), rows_of(in), m, r,
                                              partial.data_ptr<float>(), grad_scale.data_ptr<float>(),
                                              grad_shift.data_ptr<float>(), stream_of(x)));
  return {grad_x, grad_scale.to(x.scalar_type()), grad_shift.to(x.scalar_type())};
}

Tensor gated_on_gpu(const Tensor& x, const Tensor& y, const Tensor& gate) {
  const auto n = shape_of(x, "gated");
  check_like(y, x, y.sizes() == x.sizes(), "gated", "y");
  check_row(gate, x, "gated", "gate");
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor a = dense(x), b = dense(y), by = dense(gate), out = at::empty(x.sizes(), x.options());
  C10_CUDA_CHECK(cuda::gated(n, rows_of(a), rows_of(b), spread(by), out.data_ptr(), stream_of(x)));
  return out;
}

std::array<Tensor, 2> gated_backward_on_gpu(const Tensor& grad, const Tensor& y, const Tensor& gate) {
  const auto n = shape_of(y, "gated");
  check_like(grad, y, grad.sizes() == y.sizes(), "gated", "the gradient");
  check_row(gate, y, "gated", "gate");
  const c10::cuda::CUDAGuard device(y.device());
  const auto over = broadcast_of(gate, n);
  const Tensor g = dense(grad), b = dense(y), by = dense(gate), grad_y = at::empty(y.sizes(), y.options()),
               partial = floats({cuda::sum_partial(n, over)}, y), grad_gate = floats(gate.sizes(), y);
  C10_CUDA_CHECK(cuda::gated_backward(n, rows_of(g), spread(by), grad_y.data_ptr(), stream_of(y)));
  C10_CUDA_CHECK(cuda::gated_backward_sum(n, over, rows_of(g), rows_of(b), partial.data_ptr<float>(),
                                          grad_gate.data_ptr<float>(), stream_of(y)));
  return {grad_y, grad_gate.to(y.scalar_type())};
}

Tensor gelu_on_gpu(const Tensor& x, const Tensor& bias, bool exact) {
  const auto n = gelu_shape(x, bias);
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor in = x.contiguous(), plus = bias.contiguous(), y = at::empty(x.sizes(), x.options());
  C10_CUDA_CHECK(cuda::gelu(n, form_of(exact), {in.data_ptr(), 0, n.width}, plus.data_ptr(), y.data_ptr(),
                            stream_of(x)));
  return y;
}

std::array<Tensor, 2> gelu_backward_on_gpu(const Tensor& grad, const Tensor& x, const Tensor& bias,
                                           bool exact) {
  const auto n = gelu_shape(x, bias);
  check_like(grad, x, grad.sizes() == x.sizes(), "gelu", "the gradient");
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor g = grad.contiguous(), in = x.contiguous(), plus = bias.contiguous(),
               grad_x = at::empty(x.sizes(), x.options()), grad_bias = floats({n.width}, x),
               partial = floats({cuda::sum_partial(n, {true, true})}, x);
  const cuda::RowsIn of_grad{g.data_ptr(), 0, n.width}, of_x{in.data_ptr(), 0, n.width};
  C10_CUDA_CHECK(cuda::gelu_backward(n, form_of(exact), of_grad, of_x, plus.data_ptr(), grad_x.data_ptr(),
                                     stream_of(x)));
  C10_CUDA_CHECK(cuda::gelu_backward_sum(n, form_of(exact), of_grad, of_x, plus.data_ptr(),
                                         partial.data_ptr<float>(), grad_bias.data_ptr<float>(),
                                         stream_of(x)));
  return {grad_x, grad_bias.to(x.scalar_type())};
}

}  // namespace kinora::core
