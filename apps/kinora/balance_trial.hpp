// Random pipelines on random clusters, and a pipeline that runs in simulated time.
#pragma once
#include <random>
#include <string>

#include "apps/kinora/balance_bound.hpp"

namespace kinora {

struct Trial {
  std::vector<balance::Stage> stages;
  std::vector<balance::Node> nodes;
};

// 2 to 12 stages, a chain or a graph with branches; workers of a quarter of a core to eight, some with a share
// of a GPU or whole ones, some with whole nodes, some of one worker only; nodes of one to three kinds. Only
// such for which every stage finds room.
Trial random_trial(std::mt19937& random, int64_t n_nodes);

struct PlacedTrial {
  double throughput = 0, bound = 0, milliseconds = 0;  // of one processor
  std::string bound_kind;  // exact, whole-workers, whole-on-nodes
};
PlacedTrial place_trial(const Trial&, bool exact);

struct Simulation {
  double seconds = 180;   // simulated
  double noise = 0.3;     // standard deviation of one sample's time, relative
  double drift = 0.3;     // service times wander between (1 - drift) and (1 + drift) of their mean
  double period = 300;    // seconds of one such wave, about
  double step_at = 90;    // the time at which one stage becomes `step` times slower; 0: never
  double step = 2;
  double inputs = 10;     // a second at least: service times are cut so that this many can pass, since what has not ended yet
                          // within the settling time cannot have been measured
  double start = 2;       // seconds until a new worker works
  double settle = 30;     // not counted at the beginning and after the step
};
struct Simulated {
  double of_bound = 0;         // work done over what the bound of each moment allows
  double after_settling = 0;   // the same, without the seconds of settling
  int64_t moves = 0;           // times that workers moved
  int64_t moves_after_settling = 0;
};
// Balancing once a second on what was measured, from one worker a stage on.
Simulated simulate(Trial, const Simulation&, uint32_t seed);

}  // namespace kinora
