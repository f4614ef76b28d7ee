// `kinora bench parallel`: the cost of strategies. In a launch of several ranks (kinora launch) they are
// compared with each other and, on two ranks, with one process of as many threads; in one process, measures
// what a strategy of size 1 adds to a step.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"repeat", "threads": per rank, "tokens": for attention, "latents": for teacher forcing}. Every
// rank calls it; rank 0 returns the measurements by name, the others an empty object. All figures are from
// rounds in which each strategy is measured once, in turn. Throws kinora::Error.
json bench_parallel(Runtime& runtime, const json& request);

}  // namespace kinora::core
