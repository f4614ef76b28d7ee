// Workers as this program offers them: kinora.workers/1 for plugins, and the main function of a worker
// process.
#pragma once
#include "host/workers/worker.hpp"

namespace kinora::core {

class Runtime;
class Registry;

// Whether the component's plugin did not come with the program (is_built_in). A stage of such a plugin runs in a
// process of its own unless the run says otherwise: its resources are answered with isolated = 1.
bool is_third_party(const Registry&, std::string_view id);

// [main thread, once] Offers the interface from now on: workers are started from this program.
void offer_workers(WorkerProgram);
// Workers that are started from now on open only the plugins of this lock.
void lock_workers(const std::filesystem::path& plugins_lock);
// Whether workers are offered.
bool workers_are_offered();

// [any-thread] The resources() of an instance, created in its own process. Throws Error with the reason why
// it cannot be created, or how the process died. The answer for a component and its options is cached.
kinora_resources ask_apart(const kinora_worker_spec&);

// The main function of `kinora worker`, which only kinora itself starts. Serves the process at the other end
// of descriptor kWorkerSocket until it is gone; then ends this process. Throws Error if there is no other
// end.
[[noreturn]] void serve_worker(Runtime&);

}  // namespace kinora::core
