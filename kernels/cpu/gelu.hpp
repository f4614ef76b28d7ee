// GELU of x + bias (Hendrycks and Gimpel 2016, arXiv 1606.08415), float32: exact, x times the normal
// distribution function, from an erf within 3 units in the last place; or with the paper's tanh.
#pragma once
#include "kernels/cpu/modulate.hpp"

namespace kinora {

enum class Gelu { exact, tanh };

// bias [width], or null.
void gelu_forward(const RowShape&, Gelu, const float* x, const float* bias, float* y);
// grad_bias [width]: the sum over the call's rows; null if bias is. grad_x may be grad.
void gelu_backward(const RowShape&, Gelu, const float* grad, const float* x, const float* bias, float* grad_x,
                   float* grad_bias);

namespace reference {
double gelu(Gelu, double x);
double gelu_slope(Gelu, double x);
}  // namespace reference

}  // namespace kinora
