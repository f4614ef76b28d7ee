#include "kernels/cpu/elementwise_table.hpp"

namespace kinora {
namespace {

const elementwise_detail::ElementwiseKernels* elementwise_kernels() {
  static const auto* const chosen = [] {
    const auto* wide = elementwise_detail::avx512_elementwise();
    return wide ? wide : elementwise_detail::avx2_elementwise();
  }();
  return chosen;
}

}  // namespace

bool has_elementwise() { return elementwise_kernels() != nullptr; }

void modulate_forward(const RowShape& n, double epsilon, const float* x, const RowsOf& shift,
                      const RowsOf& scale, float* y, float* stats) {
  elementwise_kernels()->modulate_forward(n, epsilon, x, shift, scale, y, stats);
}
void modulate_backward(const RowShape& n, const float* grad, const float* x, const RowsOf& scale,
                       const float* stats, float* grad_x, float* grad_shift, float* grad_scale) {
  elementwise_kernels()->modulate_backward(n, grad, x, scale, stats, grad_x, grad_shift, grad_scale);
}

void gate_forward(const RowShape& n, const float* x, const float* y, const RowsOf& gate, float* out) {
  elementwise_kernels()->gate_forward(n, x, y, gate, out);
}
void gate_backward(const RowShape& n, const float* grad, const float* y, const RowsOf& gate, float* grad_y,
                   float* grad_gate) {
  elementwise_kernels()->gate_backward(n, grad, y, gate, grad_y, grad_gate);
}

void sum_rows(const RowShape& n, const float* x, float* out) { elementwise_kernels()->sum_rows(n, x, out); }

void norm_rope_forward(const HeadShape& n, double epsilon, const TokenHeads<const float>& x,
                       const float* weight, const Turn& turn, const TokenHeads<float>& y, float* rms) {
  elementwise_kernels()->norm_rope_forward(n, epsilon, x, weight, turn, y, rms);
}
void norm_rope_backward(const HeadShape& n, const TokenHeads<const float>& grad,
                        const TokenHeads<const float>& x, const float* weight, const Turn& turn,
                        const float* rms, const TokenHeads<float>& grad_x, float* grad_weight) {
  elementwise_kernels()->norm_rope_backward(n, grad, x, weight, turn, rms, grad_x, grad_weight);
}

void gelu_forward(const RowShape& n, Gelu form, const float* x, const float* bias, float* y) {
  elementwise_kernels()->gelu_forward(n, form, x, bias, y);
}
void gelu_backward(const RowShape& n, Gelu form, const float* grad, const float* x, const float* bias,
                   float* grad_x, float* grad_bias) {
  elementwise_kernels()->gelu_backward(n, form, grad, x, bias, grad_x, grad_bias);
}

}  // namespace kinora
