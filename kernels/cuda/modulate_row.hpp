// One row of modulate.hpp, forward and backward. T: type of the tensors; A: type of the arithmetic; N:
// numbers per Pack, which must divide D. With n = (x - mean) * rstd:
//
//   y       = n (1 + scale) + shift
//   g_n     = g (1 + scale)
//   g_x     = rstd (g_n - mean(g_n) - n mean(g_n n))     (Ba et al. 2016, arXiv 1607.06450, differentiated)
//   g_scale = g n,  g_shift = g
#pragma once
#include <cmath>

#include "kernels/cuda/number.hpp"

namespace kinora::cuda {

// Deviations are summed after the mean is known, so a mean far from zero loses no digits.
template <int N, class A, class T, class Team>
KINORA_BOTH void modulate_row(const Team& team, const T* x, const T* scale, const T* shift, int64_t D, A eps,
                              T* y, A* mean, A* rstd) {
  const int64_t packs = D / N;
  A sum = 0, squares = 0;
  for (int64_t i = team.first(); i < packs; i += team.step())
    for (int k = 0; k < N; ++k) sum += static_cast<A>(pack<N>(x, i).of[k]);
  const A m = team.sum(sum) / static_cast<A>(D);
  for (int64_t i = team.first(); i < packs; i += team.step())
    for (int k = 0; k < N; ++k) {
      const A d = static_cast<A>(pack<N>(x, i).of[k]) - m;
      squares += d * d;
    }
  const A r = A(1) / std::sqrt(team.sum(squares) / static_cast<A>(D) + eps);
  for (int64_t i = team.first(); i < packs; i += team.step()) {
    const Pack<T, N> in = pack<N>(x, i), by = pack<N>(scale, i), plus = pack<N>(shift, i);
    Pack<T, N> out;
    for (int k = 0; k < N; ++k)
      out.of[k] = static_cast<T>((static_cast<A>(in.of[k]) - m) * r * (A(1) + static_cast<A>(by.of[k])) +
                                 static_cast<A>(plus.of[k]));
    pack<N>(y, i) = out;
  }
  if (team.first() == 0) *mean = m, *rstd = r;
}

template <int N, class A, class T, class Team>
KINORA_BOTH void modulate_row_backward(const Team& team, const T* grad, const T* x, const T* scale, int64_t D,
                                       A mean, A rstd, T* grad_x) {
  const int64_t packs = D / N;
  A sum = 0, along = 0;
  for (int64_t i = team.first(); i < packs; i += team.step()) {
    const Pack<T, N> g = pack<N>(grad, i), in = pack<N>(x, i), by = pack<N>(scale, i);
    for (int k = 0; k < N; ++k) {
      const A gn = static_cast<A>(g.of[k]) * (A(1) + static_cast<A>(by.of[k]));
      sum += gn;
      along += gn * (static_cast<A>(in.of[k]) - mean) * rstd;
    }
  }
  const A m = team.sum(sum) / static_cast<A>(D), a = team.sum(along) / static_cast<A>(D);
  for (int64_t i = team.first(); i < packs; i += team.step()) {
    const Pack<T, N> g = pack<N>(grad, i), in = pack<N>(x, i), by = pack<N>(scale, i);
    Pack<T, N> out;
    for (int k = 0; k < N; ++k) {
      const A n = (static_cast<A>(in.of[k]) - mean) * rstd;
      out.of[k] =
          static_cast<T>(rstd * (static_cast<A>(g.of[k]) * (A(1) + static_cast<A>(by.of[k])) - m - n * a));
    }
    pack<N>(grad_x, i) = out;
  }
}

// Adds what one number of a row contributes to the gradients of scale and shift.
template <class A, class T>
KINORA_BOTH void add_modulate_terms(T grad, T x, A mean, A rstd, A (&sums)[2]) {
  const A g = static_cast<A>(grad);
  sums[0] += g * (static_cast<A>(x) - mean) * rstd;
  sums[1] += g;
}

}  // namespace kinora::cuda
