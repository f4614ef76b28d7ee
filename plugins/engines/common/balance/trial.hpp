// Random pipelines on random clusters, and the simulation of a pipeline's run.
#pragma once
#include <random>
#include <string>

#include "plugins/engines/common/balance/stages.hpp"

namespace kinora {

struct Trial {
  std::vector<balance::Stage> stages;
  std::vector<balance::Node> nodes;
};

// 2 to 12 stages, in a chain or a graph with branches. Workers take a quarter of a core to eight cores; some
// need a share of a GPU, whole GPUs or whole nodes, and some stages allow one worker only. Nodes are of one
// to three kinds. Every stage fits on the cluster.
Trial random_trial(std::mt19937& random, int64_t n_nodes);

struct PlacedTrial {
  double throughput = 0, bound = 0, milliseconds = 0;  // processor time
  std::string bound_kind;                              // exact, whole-workers, whole-on-nodes
};
PlacedTrial place_trial(const Trial&, bool exact);

struct Simulation {
  double seconds = 180;  // simulated
  double noise = 0.3;    // standard deviation of one sample's time, relative
  double drift = 0.3;    // service times wander between (1 - drift) and (1 + drift) of their mean
  double period = 300;   // approximate seconds of one such wave
  double step_at = 90;   // the time at which one stage becomes `step` times slower; 0: never
  double step = 2;
  double inputs = 10;  // lower bound per second: service times are cut so that this many can pass, because a
                       // sample that does not end within the settling time cannot have been measured
  double start = 2;    // seconds that a new worker takes to start
  double settle = 30;  // seconds left out at the beginning and after the step
};
struct Simulated {
  double of_bound = 0;        // work done, relative to the bound at each moment
  double after_settling = 0;  // the same, without the settling times
  int64_t moves = 0;          // how often workers moved
  int64_t moves_after_settling = 0;
};
// Rebalances once a second from measured times, starting with one worker per stage.
Simulated simulate(Trial, const Simulation&, uint32_t seed);

}  // namespace kinora
