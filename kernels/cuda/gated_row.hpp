// One row of gated.hpp, forward and backward. T: type of the tensors; A: type of the arithmetic; N: numbers
// per Pack, which must divide D.
//
//   out    = x + gate y
//   g_y    = g gate
//   g_gate = g y
#pragma once
#include "kernels/cuda/number.hpp"

namespace kinora::cuda {

template <int N, class A, class T, class Team>
KINORA_BOTH void gated_row(const Team& team, const T* x, const T* y, const T* gate, int64_t D, T* out) {
  for (int64_t i = team.first(); i < D / N; i += team.step()) {
    const Pack<T, N> a = pack<N>(x, i), b = pack<N>(y, i), by = pack<N>(gate, i);
    Pack<T, N> sum;
    for (int k = 0; k < N; ++k)
      sum.of[k] =
          static_cast<T>(static_cast<A>(a.of[k]) + static_cast<A>(by.of[k]) * static_cast<A>(b.of[k]));
    pack<N>(out, i) = sum;
  }
}

template <int N, class A, class T, class Team>
KINORA_BOTH void gated_row_backward(const Team& team, const T* grad, const T* gate, int64_t D, T* grad_y) {
  for (int64_t i = team.first(); i < D / N; i += team.step()) {
    const Pack<T, N> g = pack<N>(grad, i), by = pack<N>(gate, i);
    Pack<T, N> out;
    for (int k = 0; k < N; ++k)
      out.of[k] = static_cast<T>(static_cast<A>(g.of[k]) * static_cast<A>(by.of[k]));
    pack<N>(grad_y, i) = out;
  }
}

// Adds what one number of a row contributes to the gradient of the gate.
template <class A, class T>
KINORA_BOTH void add_gate_term(T grad, T y, A (&sums)[1]) {
  sums[0] += static_cast<A>(grad) * static_cast<A>(y);
}

}  // namespace kinora::cuda
