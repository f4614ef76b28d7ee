// Finds out whether a step needs all GPUs of a cluster.
#include "apps/planner/search.hpp"

namespace kinora::core::plan {
namespace {

// Parts of a cluster, smallest first: GPUs of one node, then whole nodes. Their counts divide the cluster's.
std::vector<Cluster> parts_of(const Cluster& whole) {
  std::vector<Cluster> out;
  const auto add = [&](int64_t nodes, int64_t per_node) {
    Cluster& part = out.emplace_back(whole);
    part.nodes = nodes, part.per_node = per_node;
  };
  for (int64_t n = 1; n < whole.per_node; ++n)
    if (whole.per_node % n == 0) add(1, n);
  for (int64_t n = 1; n < whole.nodes; ++n)
    if (whole.nodes % n == 0) add(n, whole.per_node);
  return out;
}

}  // namespace

std::optional<Fewer> as_fast_with_fewer(const Problem& p, double seconds) {
  constexpr double kSame = 1.01;
  for (const Cluster& part : parts_of(p.cluster)) {
    Problem smaller = p;
    smaller.cluster = part;
    auto found = search(smaller, 1);
    if (found && found->best.front().step.seconds <= kSame * seconds)
      return Fewer{part, std::move(found->best.front())};
  }
  return std::nullopt;
}

}  // namespace kinora::core::plan
