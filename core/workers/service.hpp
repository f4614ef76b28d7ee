// kinora.workers/1 for plugins.
#pragma once
#include "core/workers/worker.hpp"

namespace kinora::core {

// [main thread, once] Offers the interface from now on: workers are started from this program.
void offer_workers(WorkerProgram);
// Whether that was done.
bool workers_are_offered();

// [any-thread] What resources() of an instance says, made in a process of its own. Throws Error: why it cannot be made, or how
// the process ended over it. What was answered for a component and its options is remembered.
kinora_resources ask_apart(const kinora_worker_spec&);

}  // namespace kinora::core
