// Pipelines of as many stages as there are ranks: schedules, and ways to have conditioning on every stage.
#pragma once
#include "apps/bench/bench_ranks.hpp"

namespace kinora::core {

// request: as bench_parallel's. A step of a small DiT in microbatches under gpipe, 1f1b and interleaved (two
// stages a rank): its time, the most bytes of tensors that live at once by rank, and how much longer it takes
// than a rank works, on average of the ranks, beside the formula's (P - 1) / (V m) of equal stages and
// messages that take no time.
json bench_schedules(Runtime&, const BenchRanks&, const json& request);
// A step of a small Wan with long text: conditioning computed on every stage, or sent from the first one.
json bench_conditioning(Runtime&, const BenchRanks&, const json& request);

}  // namespace kinora::core
