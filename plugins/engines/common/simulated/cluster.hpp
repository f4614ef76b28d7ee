// A job on a cluster in virtual time. Nodes take ranges of the inputs and run each to its end by themselves (node.hpp).
// Nodes fail, are drained and come back; all of them read from one store.
#pragma once
#include "plugins/engines/common/simulated/node.hpp"

namespace kinora::engines::simulated {

struct Kind {
  balance::Node node;
  int64_t count = 1;
  double network = 0;  // bytes per second of a node's card; 0: no limit
};

struct Job {
  std::vector<Stage> stages;
  int64_t inputs = 0;
  double bytes = 0;  // read and written for one input
};

struct Surroundings {
  double failures = 0;    // share of the nodes that fail a day; their range is done again
  double drains = 0;      // share of the nodes that are taken away a day, after their range
  double away = 3600;     // seconds until such a node is back
  double takeover = 120;  // seconds until the others know that a range was lost: two leases
  double store = 0;       // bytes per second of all nodes together; 0: no limit
};

// The most inputs per second that anything reaches on these nodes, whatever it places where.
struct Bound {
  double per_second = 0;
  std::string limit;  // "cpus", "gpus", "memory", "nvdec", "nvenc", "workers", "network" or "store"
  std::string stage;  // that needs most of it; "" for the last two
};
Bound bound_of(const Job&, const std::vector<Kind>&, const Surroundings&);

struct ClusterRun {
  double seconds = 0;
  int64_t ranges = 0, failed = 0, drained = 0;  // ranges that ended; nodes
  int64_t redone = 0;                           // inputs of ranges that were lost
  double simulated = 0;                         // seconds of them that were simulated; the rest goes on alike
};
// Every stage must fit on every node. Throws Error.
ClusterRun run_cluster(const Job&, const std::vector<Kind>&, const Surroundings&, uint64_t seed);

// One scheduler for all nodes in place of ranges, as engine/ray has: samples go from node to node, and a stage fits on
// some node. Four nodes are simulated, or one of each kind; none fails, and bytes have no limit.
struct TogetherRun {
  double per_second = 0;  // inputs
  double of_bound = 0;    // part of what no schedule exceeds
};
// Throws Error.
TogetherRun run_together(const Job&, const std::vector<Kind>&, uint64_t seed);

}  // namespace kinora::engines::simulated
