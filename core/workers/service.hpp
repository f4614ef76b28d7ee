// kinora.workers/1 for plugins.
#pragma once
#include "core/workers/worker.hpp"

namespace kinora::core {

// [main thread, once] Offers the interface from now on: workers are started from this program.
void offer_workers(WorkerProgram);
// Whether that was done.
bool workers_are_offered();

// [any-thread] The resources() of an instance, created in its own process. Throws Error with the reason why it cannot be
// created, or how the process died. The answer for a component and its options is cached.
kinora_resources ask_apart(const kinora_worker_spec&);

}  // namespace kinora::core
