// The tool of `kinora data order` for windows of several sizes: which samples each rank takes at each step.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"file", "sets": of the run, "job": the encode job with the table of data, "held_out": share of its clips,
// "first": slot, "steps", "ranks", "accumulate", "batch", "buckets": whether microbatches have one size each}.
// Returns for each step the list of slots of each rank, in the order of its microbatches. Reads the facts of the
// samples, and probes clips without any. Throws Error.
json divided_steps(Runtime& runtime, const json& request);

}  // namespace kinora::core
