// One node's run of a job in virtual time: the production scheduler (runner.hpp) with instances that only take time.
// The clock moves when nothing else can happen, so an hour takes about a second and is the same every time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/engines/common/balance/stages.hpp"

namespace kinora::engines::simulated {

struct Stage {
  std::string name;
  balance::Stage cost;  // of one sample; workers: of each node, 0: the engine decides
  double deviation =
      0;  // standard deviation of its seconds; they are log-normal, so some samples are stragglers
  double starting = 0;  // seconds until a new instance works
  bool ordered = false;
};

// Inputs per second that no schedule on these nodes exceeds if a sample costs what `stages` say, even one that moves
// resources from stage to stage. Infinite if nothing limits them; 0 if a stage fits on no node.
double most_per_second(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes);

struct NodeRun {
  double seconds = 0;  // until the last outcome
  double least = 0;    // that any schedule on this node takes for the work that was drawn
  double work = 0;     // seconds of all calls together
  // The share of the bound that is reached between the first third of the inputs and the last, while there is always
  // another one; 0: the run is too short to tell.
  double steady = 0;
};
// Every stage must fit on the node. Throws Error.
NodeRun run_node(const std::vector<Stage>& stages, const balance::Node& node, int64_t inputs, uint64_t seed);

}  // namespace kinora::engines::simulated
