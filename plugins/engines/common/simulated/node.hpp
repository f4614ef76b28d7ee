// A run of a job on nodes in virtual time: the production scheduler (runner.hpp) with instances that only take time.
// The clock moves when nothing else can happen, so an hour takes about a second and is the same every time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/engines/common/balance/stages.hpp"

namespace kinora::engines::simulated {

struct Stage {
  std::string name;
  balance::Stage cost;  // of one sample; workers: of each node that runs by itself, 0: the engine decides
  double deviation =
      0;  // standard deviation of its seconds; they are log-normal, so some samples are stragglers
  double starting = 0;  // seconds until a new instance works
  bool ordered = false;
  double bytes = 0;  // that a call reads from the store before it works
};

// Inputs per second that no schedule on these nodes exceeds if a sample costs what `stages` say, even one that moves
// resources from stage to stage. Infinite if nothing limits them; 0 if a stage fits on no node.
double most_per_second(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes);
// The same if one scheduler has all nodes: `workers` are those of all together.
double most_together(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes);

// What happens to one of the nodes that one scheduler has.
struct Change {
  enum What {
    comes,
    leaves,
    lost
  } what;               // leaves: nothing begins there any more; lost: nothing ends there either
  double at;            // seconds
  size_t node = 0;      // which leaves or is lost; a node that comes has the next number
  balance::Node has{};  // the one that comes
};

struct NodeRun {
  double seconds = 0;  // until the last outcome
  // That any schedule takes on these nodes, and with this store, for the work that was drawn; changes do not count.
  double least = 0;
  double work = 0;  // seconds of all calls together
  // The share of the bound that is reached between the first third of the inputs and the last, while there is always
  // another one; 0: the run is too short to tell.
  double steady = 0;
  std::vector<double> ends;  // seconds of each input's outcome
  std::vector<std::vector<double>>
      starts{};  // of each stage: seconds when an instance, but the first, began to start
};
// Every stage must fit on the node. Throws Error.
NodeRun run_node(const std::vector<Stage>& stages, const balance::Node& node, int64_t inputs, uint64_t seed);
// The same of several nodes that one scheduler has, as engine/ray: a stage fits on some node, and `workers` are those
// of all nodes together. The loss of a node is seen when a worker there would have emitted. store: bytes per second
// that it gives all nodes together, to one call after the other; 0: no limit.
NodeRun run_nodes(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes,
                  const std::vector<Change>& changes, int64_t inputs, uint64_t seed, double store = 0);

}  // namespace kinora::engines::simulated
