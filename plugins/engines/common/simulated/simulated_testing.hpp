// Jobs for tests of simulations.
#pragma once
#include <gtest/gtest.h>

#include "kinora/testing.hpp"
#include "plugins/engines/common/simulated/cluster.hpp"
#include "plugins/engines/common/simulated/random.hpp"

namespace kinora::engines::simulated {

inline Stage stage(std::string name, double seconds, std::vector<uint32_t> from = {}) {
  Stage out;
  out.name = std::move(name);
  out.cost.seconds = seconds;
  out.cost.from = std::move(from);
  return out;
}

// A video is cut into five clips, which are filtered and captioned on a quarter of a GPU.
inline std::vector<Stage> captioned_clips() {
  std::vector<Stage> out{stage("cut", 30), stage("filter", 1, {0}), stage("caption", 3, {1})};
  out[0].cost.out = 5;
  out[0].deviation = 15, out[1].deviation = 0.5, out[2].deviation = 3;
  out[2].cost.need.gpus = 0.25;
  out[2].starting = 10;
  return out;
}

// A graph of one to four stages with any costs, each of which fits on a node of 4 cores and 2 GPUs.
inline std::vector<Stage> any_stages(uint64_t seed) {
  const auto up_to = [&](uint64_t n) { return mixed(seed++) % (n + 1); };
  std::vector<Stage> out;
  for (uint32_t i = 0, n = 1 + static_cast<uint32_t>(up_to(3)); i < n; ++i) {
    Stage s = stage("s" + std::to_string(i), 0.1 * static_cast<double>(1 + up_to(10)));
    if (i > 0) s.cost.from.push_back(static_cast<uint32_t>(up_to(i - 1)));
    s.cost.out = 0.5 * static_cast<double>(up_to(6));
    if (i == 0 && s.cost.out < 1) s.cost.out = 1;
    s.deviation = s.cost.seconds * static_cast<double>(up_to(2));
    s.starting = static_cast<double>(up_to(5));
    s.cost.need.cores = 0.5 * static_cast<double>(1 + up_to(3));
    s.cost.need.gpus = 0.5 * static_cast<double>(up_to(2));
    if (up_to(4) == 0) s.cost.workers = 2;
    if (i + 1 == n && up_to(3) == 0) s.ordered = true, s.cost.workers = 0;
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace kinora::engines::simulated
