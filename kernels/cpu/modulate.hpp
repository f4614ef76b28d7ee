// Adaptive layer norm and the gated residual, float32, with one pass over memory in each direction.
//
// y = LayerNorm(x) * (1 + scale) + shift (Peebles and Xie 2023, arXiv 2212.09748, section 3.2): a norm
// without parameters. The variance is computed from the differences to the mean, in a second pass over a row
// that is in the first-level cache.
//
// Invariant: a call works on rows of one sample. Where rows share shift, scale or gate (a row stride of 0),
// the gradient is the sum over the call's rows. If a tensor is split into calls at fixed places, independent
// of the number of threads, and the sums are added in order (sum_rows), the bits are the same with any number
// of threads.
#pragma once
#include <cstdint>

namespace kinora {

// Whether this processor has the instructions for the kernels of this header, norm_rope.hpp and gelu.hpp.
bool has_elementwise();

// x, y and their gradients are [count, width], row after row.
struct RowShape {
  int64_t count = 0, width = 0;
};
// Row r is at data + r * row.
struct RowsOf {
  const float* data = nullptr;
  int64_t row = 0;
};

// stats [count, 2]: mean and 1 / standard deviation of each row, needed by the backward.
void modulate_forward(const RowShape&, double epsilon, const float* x, const RowsOf& shift,
                      const RowsOf& scale, float* y, float* stats);
// grad_scale [count, width], or [width] if scale.row is 0; grad_shift [width], or null if it equals
// grad.
void modulate_backward(const RowShape&, const float* grad, const float* x, const RowsOf& scale,
                       const float* stats, float* grad_x, float* grad_shift, float* grad_scale);

// out = x + gate * y; the gradient of x is that of out.
void gate_forward(const RowShape&, const float* x, const float* y, const RowsOf& gate, float* out);
// grad_gate [count, width], or [width] if gate.row is 0.
void gate_backward(const RowShape&, const float* grad, const float* y, const RowsOf& gate, float* grad_y,
                   float* grad_gate);

// out [width] = sum of x's rows, in their order.
void sum_rows(const RowShape&, const float* x, float* out);

namespace reference {
// In float64; shift, scale and gate have one row per row of x.
void modulate_forward(const RowShape&, double epsilon, const double* x, const double* shift,
                      const double* scale, double* y);
void modulate_backward(const RowShape&, double epsilon, const double* grad, const double* x,
                       const double* scale, double* grad_x, double* grad_scale);
}  // namespace reference

}  // namespace kinora
