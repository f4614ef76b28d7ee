// The life of a worker process: `kinora worker`, which only kinora itself starts.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// Serves the process that holds the other end of descriptor kWorkerSocket until it is gone; then ends this
// process. Throws Error if nobody holds it.
[[noreturn]] void serve_worker(Runtime&);

}  // namespace kinora::core
