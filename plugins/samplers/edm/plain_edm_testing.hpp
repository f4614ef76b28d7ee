// Karras et al. 2022 (arXiv 2206.00364), Algorithms 1 and 2 and Euler's method, on a mixture of Gaussians:
// plain loops over doubles that share nothing with the plugin or with core. For tests.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/worst.hpp"

namespace kinora::plain {

using Row = std::vector<double>;

struct Component {
  double weight, std;
  Row mean;
};
inline const std::vector<Component> kMixture = {
    {0.3, 0.4, {-1.5, 0.5}}, {0.5, 0.7, {1.0, -0.2}}, {0.2, 0.3, {0.3, 2.0}}};
inline const std::vector<Row> kNoise = {{0.3, -1.1}, {-0.8, 0.4}, {1.9, 0.05}};

inline Row posterior_mean(const Row& x, double sigma) {
  Row out(x.size(), 0);
  double best = -INFINITY, total = 0;
  std::vector<double> logs;
  for (const auto& c : kMixture) {
    const double v = c.std * c.std + sigma * sigma;
    double l = std::log(c.weight);
    for (size_t d = 0; d < x.size(); ++d)
      l -= 0.5 * (std::log(v) + (x[d] - c.mean[d]) * (x[d] - c.mean[d]) / v);
    logs.push_back(l);
    best = test::worse(best, l);
  }
  for (double l : logs) total += std::exp(l - best);
  for (size_t k = 0; k < logs.size(); ++k) {
    const auto& c = kMixture[k];
    const double r = std::exp(logs[k] - best) / total, v = c.std * c.std + sigma * sigma;
    for (size_t d = 0; d < x.size(); ++d)
      out[d] += r * (c.std * c.std * x[d] + sigma * sigma * c.mean[d]) / v;
  }
  return out;
}

inline double level(int64_t i, int64_t n, double low, double high, double rho) {
  if (i == n) return 0;
  const double a = std::pow(high, 1 / rho), b = std::pow(low, 1 / rho);
  return n == 1 ? high : std::pow(a + double(i) / double(n - 1) * (b - a), rho);
}

// Fresh noise that the run provides at each call: the same numbers for the plugin and for the reference.
using Draw = double (*)(int64_t call, size_t row, size_t d);

struct Plain {
  int64_t steps = 12;
  double low = 0.002, high = 80, rho = 7, churn = 0, from = 0, to = 1e9, scale = 1;
  bool heun = true;
  Draw draw = nullptr;
};

inline Row reference(const Plain& p, size_t row) {
  Row x = kNoise[row];
  for (double& v : x) v *= level(0, p.steps, p.low, p.high, p.rho);
  int64_t draws = 0;
  for (int64_t i = 0; i < p.steps; ++i) {
    double t = level(i, p.steps, p.low, p.high, p.rho);
    const double next = level(i + 1, p.steps, p.low, p.high, p.rho);
    if (p.churn > 0 && t >= p.from && t <= p.to) {
      const double up = t * (1 + std::min(p.churn / double(p.steps), std::sqrt(2.0) - 1));
      for (size_t d = 0; d < x.size(); ++d)
        x[d] += std::sqrt(up * up - t * t) * p.scale * p.draw(draws, row, d);
      ++draws;
      t = up;
    }
    const Row d0 = posterior_mean(x, t);
    Row y = x;
    for (size_t d = 0; d < x.size(); ++d) y[d] += (next - t) * (x[d] - d0[d]) / t;
    if (p.heun && next > 0) {
      const Row d1 = posterior_mean(y, next);
      for (size_t d = 0; d < x.size(); ++d)
        x[d] += (next - t) * 0.5 * ((x[d] - d0[d]) / t + (y[d] - d1[d]) / next);
    } else {
      x = y;
    }
  }
  return x;
}

}  // namespace kinora::plain
