// The main function of a worker process: `kinora worker`, which only kinora itself starts.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// Serves the process at the other end of descriptor kWorkerSocket until it is gone; then ends this process.
// Throws Error if there is no other end.
[[noreturn]] void serve_worker(Runtime&);

}  // namespace kinora::core
