// Prints random pipelines on random clusters with the results of the balancer and its bounds, one line of
// JSON each, for balance_oracle.py. usage: balance_cases SEED NODES COUNT
#include <cstdlib>
#include <iostream>

#include <nlohmann/json.hpp>

#include "plugins/engines/common/balance/bound.hpp"
#include "plugins/engines/common/balance/place.hpp"
#include "plugins/engines/common/balance/trial.hpp"

namespace kinora {
namespace {

using nlohmann::json;

json json_of(const balance::Stage& s) {
  return {{"from", s.from},
          {"seconds", s.seconds},
          {"out", s.out},
          {"workers", s.workers},
          {"whole_node", s.need.whole_node},
          {"needs", {s.need.cores, s.need.memory, s.need.gpus, s.need.nvdec, s.need.nvenc}}};
}

json json_of(const Trial& trial) {
  json out;
  for (const auto& s : trial.stages) out["stages"].push_back(json_of(s));
  for (const auto& g : balance::group(trial.nodes, 0))
    out["kinds"].push_back({{"nodes", g.nodes.size()},
                            {"has", {g.node.cores, g.node.memory, g.node.gpus, g.node.nvdec, g.node.nvenc}}});
  const auto plan = balance::place(trial.stages, trial.nodes);
  out["placed"] = plan.throughput;
  for (const auto& node : plan.by_node()) out["by_node"].push_back(node);
  for (const auto& node : trial.nodes)
    out["node_has"].push_back({node.cores, node.memory, node.gpus, node.nvdec, node.nvenc});
  out["linear"] = linear_bound(trial.stages, trial.nodes);
  out["whole"] = whole_worker_bound(trial.stages, trial.nodes);
  const auto exact =
      trial.nodes.size() <= 8 ? exact_optimum(trial.stages, trial.nodes, 300000) : std::nullopt;
  out["exact"] = exact ? json(*exact) : json();
  return out;
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: balance_cases SEED NODES COUNT\n", 2;
  std::mt19937 random(static_cast<uint32_t>(std::atoi(argv[1])));
  for (int i = 0; i < std::atoi(argv[3]); ++i)
    std::cout << kinora::json_of(kinora::random_trial(random, std::atoi(argv[2]))).dump() << "\n";
}
