#include "apps/planner/durations.hpp"

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

Group group(const Cluster& c, int64_t size, int64_t stride) {
  return {size, std::clamp<int64_t>(c.per_node / std::max<int64_t>(stride, 1), 1, size)};
}
Group tensor_group(const Layout& l, const Cluster& c) { return group(c, l.tp, 1); }
Group sequence_group(const Layout& l, const Cluster& c) { return group(c, l.cp, l.tp); }
Group shard_group(const Layout& l, const Cluster& c) {
  return l.shard_over_cp ? group(c, l.fsdp * l.cp, l.tp) : group(c, l.fsdp, l.tp * l.cp);
}

// Gradients are summed over dp and cp, whose ranks have other samples or tokens for the same weights.
Group replica_group(const Layout& l, const Cluster& c) {
  const Group outer = group(c, l.dp, l.tp * l.cp * l.fsdp);
  if (l.shard_over_cp) return outer;
  const Group inner = group(c, l.cp, l.tp);
  return {l.cp * l.dp, inner.in_node * outer.in_node};
}
Group pipeline_group(const Layout& l, const Cluster& c) {
  return group(c, l.pp, l.dp * l.fsdp * l.cp * l.tp);
}

double Links::collective(double bytes, const Group& g) const {
  if (g.size < 2) return 0;
  const double rate =
      g.crosses() ? std::min(c_.gpu.link, c_.gpu.network * static_cast<double>(g.in_node)) : c_.gpu.link;
  return latency(g) * std::ceil(std::log2(static_cast<double>(g.size))) + bytes / (e_.link * rate);
}

double Links::all_to_all(double held, const Group& g) const {
  if (g.size < 2) return 0;
  const double n = static_cast<double>(g.size), near = static_cast<double>(g.in_node - 1);
  const double away = static_cast<double>(g.size - g.in_node);
  return latency(g) +
         std::max(held * near / n / (e_.link * c_.gpu.link), held * away / n / (e_.link * c_.gpu.network));
}

double Links::step(double block, const Group& g) const {
  if (g.size < 2) return 0;
  return latency(g) + block / (e_.link * (g.crosses() ? c_.gpu.network : c_.gpu.link));
}

}  // namespace kinora::core::plan
