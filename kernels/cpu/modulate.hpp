// Adaptive layer norm and the gated residual, float32, one pass over memory each way.
//
// y = LayerNorm(x) * (1 + scale) + shift (Peebles and Xie 2023, arXiv 2212.09748, section 3.2): the norm
// without parameters, the variance from the differences to the mean, a second pass over a row that is in the
// first cache.
//
// Invariant: a call works on rows of one sample; what shift, scale and gate are shared by (a row stride of 0)
// gives gradients that are sums over the call's rows. Whoever cuts a tensor into calls at fixed places,
// whatever the threads, and adds the sums in order (sum_rows) has the same bits at any number of threads.
#pragma once
#include <cstdint>

namespace kinora {

// Whether this processor has what the kernels of this header, norm_rope.hpp and gelu.hpp need.
bool has_elementwise();

// x, y and their gradients are [count, width], rows one after the other.
struct RowShape {
  int64_t count = 0, width = 0;
};
// Of row r: data + r * row.
struct RowsOf {
  const float* data = nullptr;
  int64_t row = 0;
};

// stats [count, 2]: mean and 1 / standard deviation of each row, what the backward needs.
void modulate_forward(const RowShape&, double epsilon, const float* x, const RowsOf& shift,
                      const RowsOf& scale, float* y, float* stats);
// grad_scale [count, width], or [width] if scale.row is 0; grad_shift [width], or null where it is grad
// itself.
void modulate_backward(const RowShape&, const float* grad, const float* x, const RowsOf& scale,
                       const float* stats, float* grad_x, float* grad_shift, float* grad_scale);

// out = x + gate * y; x's gradient is out's.
void gate_forward(const RowShape&, const float* x, const float* y, const RowsOf& gate, float* out);
// grad_gate [count, width], or [width] if gate.row is 0.
void gate_backward(const RowShape&, const float* grad, const float* y, const RowsOf& gate, float* grad_y,
                   float* grad_gate);

// out [width] = sum of x's rows, in their order.
void sum_rows(const RowShape&, const float* x, float* out);

namespace reference {
// In float64; shift, scale and gate are one row a row of x.
void modulate_forward(const RowShape&, double epsilon, const double* x, const double* shift,
                      const double* scale, double* y);
void modulate_backward(const RowShape&, double epsilon, const double* grad, const double* x,
                       const double* scale, double* grad_x, double* grad_scale);
}  // namespace reference

}  // namespace kinora
