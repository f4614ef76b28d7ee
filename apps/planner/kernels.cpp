#include "apps/planner/kernels.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::core::plan {

double Kernels::product(double m, double n, double k) const {
  const Gpu& g = p_.cluster.gpu;
  const double waste = 1 + g.units * 128 * 256 / (m * n);
  const double at_peak = 2 * m * n * k / (p_.efficiency.matrix * g.peak) * waste;
  const double moved = 2 * (m * k + k * n + m * n) / (p_.efficiency.memory * g.memory_bandwidth);
  return p_.efficiency.launch + std::max(at_peak, moved);
}

double Kernels::attention(double pairs, double width, double queries, double keys) const {
  const auto filled = [](double size, double tile) { return std::ceil(size / tile) * tile / size; };
  const double tiles = p_.cluster.gpu.units > 0 ? filled(queries, 128) * filled(keys, 64) : 1;
  return p_.efficiency.launch + 4 * pairs * width * tiles / (p_.efficiency.attention * p_.cluster.gpu.peak);
}

double Kernels::memory(double bytes) const {
  return p_.efficiency.launch + bytes / (p_.efficiency.memory * p_.cluster.gpu.memory_bandwidth);
}

}  // namespace kinora::core::plan
