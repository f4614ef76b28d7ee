// One machine whose resources move from stage to stage with the work: no stage owns a core, so a stage may use
// two thirds of one. Computes the machine's throughput and the number of workers that each stage then needs.
#pragma once
#include <optional>

#include "kinora/balance/stages.hpp"

namespace kinora::balance {

struct Shared {
  double throughput = 0;        // inputs of the source per second; 0 if no stage has work
  std::optional<size_t> bound;  // the stage whose workers are all busy, or that uses most of the exhausted resource
};

// `workers` of a stage: its largest number at once; 0: any number.
inline Shared shared(const std::vector<Stage>& stages, const Node& node) {
  const std::vector<double> work = work_of(stages);
  Shared out{std::numeric_limits<double>::infinity(), std::nullopt};
  const auto limit = [&](double t, size_t stage) {
    if (t < out.throughput) out = {t, stage};
  };
  for (size_t r = 0; r < kResources; ++r) {
    double all = 0, largest = 0;
    size_t most = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
      const double share = work[i] * of(stages[i].need, r);
      all += share;
      if (share > largest) largest = share, most = i;
    }
    if (all > 0) limit(of(node, r) / all, most);
  }
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i].workers > 0 && work[i] > 0) limit(static_cast<double>(stages[i].workers) / work[i], i);
  if (!std::isfinite(out.throughput)) out.throughput = 0;
  return out;
}

}  // namespace kinora::balance
