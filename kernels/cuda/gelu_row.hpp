// One row of gelu.hpp, forward and backward. T: type of the tensors; A: type of the arithmetic; N: numbers
// per Pack, which must divide D. With u = x + bias and the normal distribution function P:
//
//   exact: y = u P(u),  slope = P(u) + u P'(u)
//   tanh:  y = u (1 + tanh v) / 2,  v = sqrt(2 / pi) (u + 0.044715 u^3)
//   g_x = g slope,  g_bias = g slope
#pragma once
#include <cmath>

#include "kernels/cuda/number.hpp"

namespace kinora::cuda {

constexpr double kRootHalf = 0.70710678118654752, kOneByRootTwoPi = 0.39894228040143268;
constexpr double kRootTwoByPi = 0.79788456080286536, kCubic = 0.044715;

template <class A>
KINORA_BOTH A gelu_of(A u, bool exact) {
  if (exact) return A(0.5) * u * (A(1) + std::erf(u * A(kRootHalf)));
  return A(0.5) * u * (A(1) + std::tanh(A(kRootTwoByPi) * (u + A(kCubic) * u * u * u)));
}

template <class A>
KINORA_BOTH A gelu_slope(A u, bool exact) {
  if (exact)
    return A(0.5) * (A(1) + std::erf(u * A(kRootHalf))) + u * A(kOneByRootTwoPi) * std::exp(A(-0.5) * u * u);
  const A t = std::tanh(A(kRootTwoByPi) * (u + A(kCubic) * u * u * u));
  return A(0.5) * (A(1) + t) +
         A(0.5) * u * (A(1) - t * t) * A(kRootTwoByPi) * (A(1) + A(3) * A(kCubic) * u * u);
}

template <int N, class A, class T, class Team>
KINORA_BOTH void gelu_row(const Team& team, bool exact, const T* x, const T* bias, int64_t D, T* y) {
  for (int64_t i = team.first(); i < D / N; i += team.step()) {
    const Pack<T, N> in = pack<N>(x, i), plus = pack<N>(bias, i);
    Pack<T, N> out;
    for (int k = 0; k < N; ++k)
      out.of[k] = static_cast<T>(gelu_of(static_cast<A>(in.of[k]) + static_cast<A>(plus.of[k]), exact));
    pack<N>(y, i) = out;
  }
}

// The gradient of one number of x.
template <class A, class T>
KINORA_BOTH A gelu_gradient(T grad, T x, T bias, bool exact) {
  return static_cast<A>(grad) * gelu_slope(static_cast<A>(x) + static_cast<A>(bias), exact);
}

template <int N, class A, class T, class Team>
KINORA_BOTH void gelu_row_backward(const Team& team, bool exact, const T* grad, const T* x, const T* bias,
                                   int64_t D, T* grad_x) {
  for (int64_t i = team.first(); i < D / N; i += team.step()) {
    const Pack<T, N> g = pack<N>(grad, i), in = pack<N>(x, i), plus = pack<N>(bias, i);
    Pack<T, N> out;
    for (int k = 0; k < N; ++k)
      out.of[k] = static_cast<T>(gelu_gradient<A>(g.of[k], in.of[k], plus.of[k], exact));
    pack<N>(grad_x, i) = out;
  }
}

}  // namespace kinora::cuda
