// kinora.workers/1 for plugins.
#pragma once
#include "core/workers/worker.hpp"

namespace kinora::core {

// [main thread, once] Offers the interface from now on: workers are started from this program.
void offer_workers(WorkerProgram);

}  // namespace kinora::core
