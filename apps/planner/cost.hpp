// The cost of a layout: the memory of its fullest rank and the seconds of a step (simulated, or from a closed
// form), and the schedules of pipelines behind both.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// Memory of the fullest rank, tensor by tensor: BF16 weights and activations, float32 gradients, master
// weights and Adam's moments; 18 bytes a parameter before anything is cut.
struct Held {
  const char* name;
  double bytes;
};

std::vector<Held> held(const Layout&, const Problem&);
double total(const std::vector<Held>&);
// Bytes of a rank that a plan may use.
inline double room(const Problem& p) { return p.cluster.gpu.memory * p.efficiency.usable; }

// Sets the least recomputation with which the layout fits: none, a quarter, half or all of the blocks.
// Returns false, with all of them, if it does not fit even then.
bool lighten(Layout&, const Problem&);

// Times of one block of the model on one rank, from a simulation of its kernels and messages: a compute stream, a
// stream of tensor parallelism and one of context parallelism.
struct BlockTime {
  double forward = 0, backward = 0;     // seconds
  std::map<std::string, double> spent;  // of both: by work of the compute stream, and by what it waited for
};
BlockTime block_time(const Layout&, const Problem&);

// Seconds of embedding and head of one microbatch, forward.
double outer_time(const Layout&, const Problem&);

// One optimizer step: every pipeline stage's blocks, the messages between stages and the collectives of fsdp
// and ddp.
struct Step {
  double seconds = 0;
  double mfu = 0;                       // share of all GPUs' peaks, without recomputation
  double tokens_per_gpu = 0;            // per second
  std::map<std::string, double> spent;  // of the busiest stage, by kind; the parts add up to seconds
};

// simulate_step is a discrete-event simulation, estimate_step a closed form for the search, in seconds. The
// layout must be legal; BlockTime is its block_time().
Step simulate_step(const Layout&, const Problem&, const BlockTime&);
double estimate_step(const Layout&, const Problem&, const BlockTime&);

// The order in which stage `stage` runs its chunks: forward or backward of microbatch m's chunk c.
struct Turn {
  bool backward;
  int64_t chunk, microbatch;
};
std::vector<Turn> turns(const Layout&, int64_t stage, int64_t microbatches);

// Number of layer chunks (of a virtual stage each) whose activations the first stage holds at once.
int64_t chunks_in_flight(const Layout&, int64_t microbatches);

}  // namespace kinora::core::plan
