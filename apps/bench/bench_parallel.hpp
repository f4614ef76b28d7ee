// `kinora bench parallel`: what strategies cost. Within a launch of several ranks (kinora launch) they are
// compared with each other and, on two, with one process of as many threads; in one process, what a strategy
// of size 1 adds to a step.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"repeat", "threads": of each rank, "tokens": of attention, "latents": of teacher forcing}. Every rank calls it; rank 0 gives what
// was measured by name, the others an empty object. All figures are of rounds in which each is measured once,
// in turn. Throws kinora::Error.
json bench_parallel(Runtime& runtime, const json& request);

}  // namespace kinora::core
