// The run that a call into a component is part of.
#pragma once
#include <functional>

#include "core/run/progress.hpp"
#include "kinora/abi/run.h"

namespace kinora::core {

// What a kinora_run's functions need; outlives every use of it.
struct Call {
  uint64_t seed = 0;
  int64_t first_sample = 0;      // global number of the batch's first sample: keys the noise
  Progress* progress = nullptr;  // null: nothing is shown
  // What a call shows of its work after `done` steps; the tensor is borrowed. Null: nobody looks.
  std::function<void(int64_t done, kinora_tensor preview)> preview = nullptr;
};

// On the CPU with one thread and no folder. Stops when the run is cancelled; noise needs libtorch, which it
// loads.
kinora_run run_of(Call&);

}  // namespace kinora::core
