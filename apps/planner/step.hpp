// Seconds of one optimizer step: a simulation of every pipeline stage's blocks, the messages between stages
// and the collectives of fsdp and ddp; and an estimate of it in closed form, to search with.
#pragma once
#include <map>
#include <string>

#include "apps/planner/block.hpp"

namespace kinora::core::plan {

struct Step {
  double seconds = 0;
  double mfu = 0;                       // model operations, recomputation not counted, of all GPUs' peaks
  double tokens_per_gpu = 0;            // a second
  std::map<std::string, double> spent;  // of the busiest stage, by what; the parts add up to seconds
};

// The layout is legal.
Step simulate_step(const Layout&, const Problem&, const BlockTime&);
double estimate_step(const Layout&, const Problem&, const BlockTime&);

// The order in which stage `stage` does its chunks: forward or backward of microbatch m's chunk c.
struct Turn {
  bool backward;
  int64_t chunk, microbatch;
};
std::vector<Turn> turns(const Layout&, int64_t stage, int64_t microbatches);

}  // namespace kinora::core::plan
