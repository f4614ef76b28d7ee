#include "apps/planner/fit.hpp"

#include <algorithm>
#include <cmath>

#include "apps/planner/step.hpp"

namespace kinora::core::plan {

double error_of(const Measured& m, const Efficiency& e) {
  Problem p = m.problem;
  p.efficiency = e;
  return simulate_step(m.layout, p, block_time(m.layout, p)).tokens_per_gpu / m.tokens_per_gpu - 1;
}

Efficiency fit(const std::vector<Measured>& runs, Efficiency start) {
  const auto worst = [&](int matrix, int link) {
    start.matrix = matrix / 100.0, start.link = link / 100.0;
    double out = 0;
    for (const auto& m : runs) out = std::max(out, std::abs(error_of(m, start)));
    return out;
  };
  double least = 1e30;
  int matrix = 0, link = 0;
  // Every fifth point, then all points around the best of them.
  for (int i = 30; i <= 100; i += 5)
    for (int j = 30; j <= 100; j += 5)
      if (const double w = worst(i, j); w < least) least = w, matrix = i, link = j;
  const int i0 = matrix, j0 = link;
  for (int i = i0 - 4; i <= std::min(100, i0 + 4); ++i)
    for (int j = j0 - 4; j <= std::min(100, j0 + 4); ++j)
      if (const double w = worst(i, j); w < least) least = w, matrix = i, link = j;
  start.matrix = matrix / 100.0, start.link = link / 100.0;
  return start;
}

}  // namespace kinora::core::plan
