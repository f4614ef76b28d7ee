#include "kernels/torch/modulate.hpp"

#include <ATen/ATen.h>

#include "kernels/torch/gpu.hpp"
#include "kernels/torch/node.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace node;

bool is_row_of(const Tensor& t, const Tensor& x) {
  return t.defined() && x.dim() == 3 && t.dim() == 3 && t.size(2) == x.size(2) &&
         (t.size(0) == 1 || t.size(0) == x.size(0)) && (t.size(1) == 1 || t.size(1) == x.size(1));
}
// [B, 1 or S, D], numbers of a row adjacent, rows apart: a row stride of 0 means one row per sample.
Tensor rows_for(const Tensor& t, const Tensor& x) {
  const Tensor all = t.size(0) == x.size(0) ? t : t.expand({x.size(0), -1, -1});
  return all.stride(2) == 1 && (all.size(1) == 1 || all.stride(1) != 0) ? all : all.contiguous();
}
RowsOf rows_at(const Tensor& t, int64_t b, int64_t first) {
  const int64_t row = t.size(1) == 1 ? 0 : t.stride(1);
  return {t.data_ptr<float>() + b * t.stride(0) + first * row, row};
}
Blocks blocks_of(const Tensor& x) { return {x.size(0), x.size(1)}; }

// The place where block `i` of sample b, from row `first`, puts the gradient of a row: its sum, or the rows
// themselves.
struct RowGrad {
  RowGrad(const Tensor& rows, const Tensor& x)
      : shared(rows.size(1) == 1),
        to(shared ? at::empty({x.size(0), blocks_of(x).of_sample(), x.size(2)}, x.options())
                  : at::empty(x.sizes(), x.options())) {}
  float* at_block(int64_t i, int64_t row) const {
    return to.data_ptr<float>() + (shared ? i : row) * to.size(2);
  }
  Tensor done() const { return shared ? total(to).unsqueeze(1) : to; }
  bool shared;
  Tensor to;
};

struct Modulate : torch::autograd::Function<Modulate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given, const Tensor& shift, const Tensor& scale,
                        double epsilon) {
    const Tensor x = given.contiguous(), y = at::empty(x.sizes(), x.options()),
                 stats = at::empty({x.size(0), x.size(1), 2}, x.options());
    blocks_of(x).each([&](int64_t, int64_t b, int64_t first, int64_t count) {
      const int64_t row = b * x.size(1) + first, at = row * x.size(2);
      modulate_forward({count, x.size(2)}, epsilon, x.data_ptr<float>() + at, rows_at(shift, b, first),
                       rows_at(scale, b, first), y.data_ptr<float>() + at, stats.data_ptr<float>() + 2 * row);
    });
    ctx->save_for_backward({x, scale, stats});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &scale = saved[1], &stats = saved[2];
    const Tensor grad = grads[0].contiguous(), grad_x = at::empty(x.sizes(), x.options());
    const RowGrad to_scale(scale, x), to_shift(scale, to_scale.shared ? x : x.narrow(1, 0, 0));
    blocks_of(x).each([&](int64_t i, int64_t b, int64_t first, int64_t count) {
      const int64_t row = b * x.size(1) + first, at = row * x.size(2);
      modulate_backward({count, x.size(2)}, grad.data_ptr<float>() + at, x.data_ptr<float>() + at,
                        rows_at(scale, b, first), stats.data_ptr<float>() + 2 * row,
                        grad_x.data_ptr<float>() + at, to_scale.shared ? to_shift.at_block(i, row) : nullptr,
                        to_scale.at_block(i, row));
    });
    return once({grad_x, to_scale.shared ? to_shift.done() : grad, to_scale.done(), {}}, "modulate");
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given_x, const Tensor& given_y,
                        const Tensor& gate) {
    const Tensor x = given_x.contiguous(), y = given_y.contiguous(), out = at::empty(x.sizes(), x.options());
    blocks_of(x).each([&](int64_t, int64_t b, int64_t first, int64_t count) {
      const int64_t at = (b * x.size(1) + first) * x.size(2);
      gate_forward({count, x.size(2)}, x.data_ptr<float>() + at, y.data_ptr<float>() + at,
                   rows_at(gate, b, first), out.data_ptr<float>() + at);
    });
    ctx->save_for_backward({y, gate});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &y = saved[0], &gate = saved[1];
    const Tensor grad = grads[0].contiguous(), grad_y = at::empty(y.sizes(), y.options());
    const RowGrad to_gate(gate, y);
    blocks_of(y).each([&](int64_t i, int64_t b, int64_t first, int64_t count) {
      const int64_t row = b * y.size(1) + first, at = row * y.size(2);
      gate_backward({count, y.size(2)}, grad.data_ptr<float>() + at, y.data_ptr<float>() + at,
                    rows_at(gate, b, first), grad_y.data_ptr<float>() + at, to_gate.at_block(i, row));
    });
    return once({grad, grad_y, to_gate.done()}, "gated");
  }
};

}  // namespace

Tensor modulate(const Tensor& x, const Tensor& shift, const Tensor& scale, double epsilon) {
  const bool rows = is_row_of(shift, x) && is_row_of(scale, x);
  if (rows && fits(x) && fits(shift) && fits(scale) && shift.size(1) == scale.size(1))
    return apply<Modulate>(x, rows_for(shift, x), rows_for(scale, x), epsilon);
  if (rows && shift.sizes() == scale.sizes() && gpu::fits({x, shift, scale}))
    return gpu::modulate(x, shift, scale, epsilon);
  return at::addcmul(shift, at::layer_norm(x, {x.size(-1)}, {}, {}, epsilon), 1 + scale);
}

Tensor gated(const Tensor& x, const Tensor& y, const Tensor& gate) {
  const bool rows = x.sizes() == y.sizes() && is_row_of(gate, x);
  if (rows && fits(x) && fits(y) && fits(gate)) return apply<Gated>(x, y, rows_for(gate, x));
  if (rows && gpu::fits({x, y, gate})) return gpu::gated(x, y, gate);
  return at::addcmul(x, y, gate);
}

}  // namespace kinora
