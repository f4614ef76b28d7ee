#include "plugins/samplers/flow/unipc_step.hpp"

#include <cmath>
#include <vector>

namespace kinora {

namespace {

double lambda(double s) { return std::log1p(-s) - std::log(s); }

// Solves sum_k r_k^i a_k = b_i, i = 0 .. n - 1, for distinct r: Gaussian elimination with row pivoting for the largest
// pivot.
std::vector<double> vandermonde(const std::vector<double>& r, std::vector<double> b) {
  const size_t n = r.size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k) m[i][k] = std::pow(r[k], static_cast<double>(i));
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t i = c; i < n; ++i)
      if (std::abs(m[i][c]) > std::abs(m[pivot][c])) pivot = i;
    std::swap(m[c], m[pivot]);
    std::swap(b[c], b[pivot]);
    for (size_t i = 0; i < n; ++i) {
      if (i == c) continue;
      const double by = m[i][c] / m[c][c];
      for (size_t k = c; k < n; ++k) m[i][k] -= by * m[c][k];
      b[i] -= by * b[c];
    }
  }
  for (size_t i = 0; i < n; ++i) b[i] /= m[i][i];
  return b;
}

// The right-hand side of the paper's equations for the weights: z i! phi_{i+1}(z) / B, i = 1 .. n.
std::vector<double> moments(double z, double B, size_t n) {
  std::vector<double> out;
  double phi = std::expm1(z) / z - 1, factorial = 1;
  for (size_t i = 1; i <= n; ++i) {
    out.push_back(phi * factorial / B);
    factorial *= static_cast<double>(i + 1);
    phi = phi / z - 1 / factorial;
  }
  return out;
}

}  // namespace

Tensor unipc_step(const Tensor& x, double to, const std::deque<Prediction>& history, int64_t order, bool bh1,
                  const Tensor& at_end) {
  const double s = history[0].s;
  const Tensor& x0 = history[0].x0;
  if (to == 0) return x0;  // h is infinite: the result of the step is x0
  const double h = lambda(to) - lambda(s), grown = std::expm1(-h), B = bh1 ? -h : grown;
  Tensor next = x * (to / s) - x0 * ((1 - to) * grown);
  // Differences of predictions, each divided by its distance r in units of h; the corrector's own has r = 1.
  std::vector<double> r;
  for (int64_t k = 1; k < order; ++k)
    r.push_back((lambda(history[static_cast<size_t>(k)].s) - lambda(s)) / h);
  if (at_end.defined()) r.push_back(1);
  std::vector<double> weight;
  if (r.size() == 1) {
    weight = {0.5};  // a degree of freedom; the paper's choice
  } else if (r.size() > 1) {
    weight = vandermonde(r, moments(-h, B, r.size()));
  }
  for (size_t k = 0; k < r.size(); ++k) {
    const Tensor& other = at_end.defined() && k + 1 == r.size() ? at_end : history[k + 1].x0;
    next = next - (other - x0) * ((1 - to) * B * weight[k] / r[k]);
  }
  return next;
}

}  // namespace kinora
