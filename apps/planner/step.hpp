// Seconds of one optimizer step: a simulation of every pipeline stage's blocks, the messages between stages
// and the collectives of fsdp and ddp; and a closed-form estimate for the search.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// Of one block of the model on one rank, from a simulation of its kernels and messages: a compute stream, a
// stream of tensor parallelism and one of context parallelism.
struct BlockTime {
  double forward = 0, backward = 0;     // seconds
  std::map<std::string, double> spent;  // of both: by work of the compute stream, and by what it waited for
};
BlockTime block_time(const Layout&, const Problem&);

// Seconds of embedding and head of one microbatch, forward.
double outer_time(const Layout&, const Problem&);

struct Step {
  double seconds = 0;
  double mfu = 0;                       // share of all GPUs' peaks, without recomputation
  double tokens_per_gpu = 0;            // per second
  std::map<std::string, double> spent;  // of the busiest stage, by kind; the parts add up to seconds
};

// The layout must be legal.
Step simulate_step(const Layout&, const Problem&, const BlockTime&);
double estimate_step(const Layout&, const Problem&, const BlockTime&);

// The order in which stage `stage` runs its chunks: forward or backward of microbatch m's chunk c.
struct Turn {
  bool backward;
  int64_t chunk, microbatch;
};
std::vector<Turn> turns(const Layout&, int64_t stage, int64_t microbatches);

}  // namespace kinora::core::plan
