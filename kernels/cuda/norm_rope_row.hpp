// One head's row of norm_rope.hpp, forward and backward. T: type of the tensors; A: type of the arithmetic.
// With n = x * rstd and pairs (a, b) of u = n * weight, rotated by an angle:
//
//   y_a = u_a cos - u_b sin,   y_b = u_b cos + u_a sin          (Su et al. 2021, arXiv 2104.09864, equation 34)
//   g_u = g rotated back,   g_weight = g_u n
//   g_x = rstd (g_u weight - n mean(g_u weight n))              (Zhang and Sennrich 2019, arXiv 1910.07467)
//
// Without a weight there is no norm: u = x and g_x = g_u.
#pragma once
#include <cmath>

#include "kernels/cuda/number.hpp"

namespace kinora::cuda {

// The positions of the two channels of pair i.
struct Pair {
  int64_t a, b;
};
KINORA_BOTH inline Pair pair_of(int64_t i, int64_t d, bool halves) {
  return halves ? Pair{i, i + d / 2} : Pair{2 * i, 2 * i + 1};
}

template <class A>
struct Turn {
  A cos, sin;
};
template <class A>
KINORA_BOTH Turn<A> turn_of(const A* cos, const A* sin, int64_t i) {
  return cos ? Turn<A>{cos[i], sin[i]} : Turn<A>{1, 0};
}

// cos and sin [d / 2], or null. weight null: no norm, and rstd is not written.
template <class A, class T, class Team>
KINORA_BOTH void norm_rope_row(const Team& team, const T* x, const T* weight, const A* cos, const A* sin,
                               int64_t d, bool halves, A eps, T* y, A* rstd) {
  A r = 1;
  if (weight) {
    A squares = 0;
    for (int64_t i = team.first(); i < d; i += team.step())
      squares += static_cast<A>(x[i]) * static_cast<A>(x[i]);
    r = A(1) / std::sqrt(team.sum(squares) / static_cast<A>(d) + eps);
    if (team.first() == 0) *rstd = r;
  }
  const auto normed = [&](int64_t i) {
    return weight ? static_cast<A>(x[i]) * r * static_cast<A>(weight[i]) : static_cast<A>(x[i]);
  };
  for (int64_t i = team.first(); i < d / 2; i += team.step()) {
    const Pair at = pair_of(i, d, halves);
    const Turn<A> t = turn_of(cos, sin, i);
    const A a = normed(at.a), b = normed(at.b);
    y[at.a] = static_cast<T>(a * t.cos - b * t.sin);
    y[at.b] = static_cast<T>(b * t.cos + a * t.sin);
  }
}

// Adds to `sums` the weight's gradient of this thread's pairs: sums[2 k] and sums[2 k + 1] for its k-th pair.
// Without a weight, x, r and sums are not used.
template <int most, class A, class T, class Team>
KINORA_BOTH void norm_rope_row_backward(const Team& team, const T* grad, const T* x, const T* weight,
                                        const A* cos, const A* sin, int64_t d, bool halves, A r, T* grad_x,
                                        A (&sums)[2 * most]) {
  A gn[2 * most], n[2 * most], along = 0;
  KINORA_UNROLL
  for (int k = 0; k < most; ++k) {
    const int64_t i = team.first() + k * team.step();
    if (i >= d / 2) break;
    const Pair at = pair_of(i, d, halves);
    const Turn<A> t = turn_of(cos, sin, i);
    const A a = static_cast<A>(grad[at.a]), b = static_cast<A>(grad[at.b]);
    const A ua = a * t.cos + b * t.sin, ub = b * t.cos - a * t.sin;
    if (!weight) {
      grad_x[at.a] = static_cast<T>(ua);
      grad_x[at.b] = static_cast<T>(ub);
      continue;
    }
    n[2 * k] = static_cast<A>(x[at.a]) * r;
    n[2 * k + 1] = static_cast<A>(x[at.b]) * r;
    gn[2 * k] = ua * static_cast<A>(weight[at.a]);
    gn[2 * k + 1] = ub * static_cast<A>(weight[at.b]);
    sums[2 * k] += ua * n[2 * k];
    sums[2 * k + 1] += ub * n[2 * k + 1];
    along += gn[2 * k] * n[2 * k] + gn[2 * k + 1] * n[2 * k + 1];
  }
  if (!weight) return;
  const A m = team.sum(along) / static_cast<A>(d);
  KINORA_UNROLL
  for (int k = 0; k < most; ++k) {
    const int64_t i = team.first() + k * team.step();
    if (i >= d / 2) break;
    const Pair at = pair_of(i, d, halves);
    grad_x[at.a] = static_cast<T>(r * (gn[2 * k] - n[2 * k] * m));
    grad_x[at.b] = static_cast<T>(r * (gn[2 * k + 1] - n[2 * k + 1] * m));
  }
}

}  // namespace kinora::cuda
