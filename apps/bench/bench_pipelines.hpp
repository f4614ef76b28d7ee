// Benchmarks of pipelines with one stage per rank: schedules, and ways to provide conditioning on every
// stage.
#pragma once
#include "apps/bench/bench_ranks.hpp"

namespace kinora::core {

// request: as bench_parallel's. Measures a step of a small DiT in microbatches under gpipe, 1f1b and
// interleaved (two stages a rank): its time, peak tensor memory by rank, and the share by which it takes
// longer than a rank works, averaged over the ranks. The formula's (P - 1) / (V m), for equal stages and
// messages that take no time, is given for comparison.
json bench_schedules(Runtime&, const BenchRanks&, const json& request);
// Measures a step of a small Wan with long text: conditioning computed on every stage, or sent from the first
// one.
json bench_conditioning(Runtime&, const BenchRanks&, const json& request);

}  // namespace kinora::core
