// `kinora plugins check-parallel`: compares a strategy with one process, on the ranks of this launch.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"use": the strategy as in a job's `parallel`, "bound"}. Every rank calls it with the same file://
// rendezvous; each returns {"ranks", "layout", "trials": [{"name", "worst": {kind: difference}, "skipped":
// why, or "wrong": {"what", "off", "rule"}}]}. Throws kinora::Error.
json check_parallel(Runtime& runtime, const json& request);

}  // namespace kinora::core
