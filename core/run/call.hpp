// The run that a call into a component is part of.
#pragma once
#include <functional>

#include "core/run/progress.hpp"
#include "kinora/abi/run.h"

namespace kinora::core {

// State behind a kinora_run's functions; must outlive the kinora_run.
struct Call {
  uint64_t seed = 0;
  int64_t first_sample = 0;      // global number of the batch's first sample: keys the noise
  Progress* progress = nullptr;  // null: nothing is shown
  // Receives an intermediate result after `done` steps; the tensor is borrowed. Null: no previews.
  std::function<void(int64_t done, kinora_tensor preview)> preview = nullptr;
};

// A run on the CPU with one thread and no folder. Stops when the run is cancelled. Noise needs libtorch, which is
// loaded on first use.
kinora_run run_of(Call&);

}  // namespace kinora::core
