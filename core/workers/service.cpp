#include "core/workers/service.hpp"

#include "core/plugin/host.hpp"

struct kinora_worker {
  kinora::core::Worker worker;
};

namespace kinora::core {
namespace {

// Never destroyed: plugins may ask until the last instruction of the process.
WorkerProgram& the_program() {
  static auto* one = new WorkerProgram;
  return *one;
}

int32_t start(const kinora_worker_spec* spec, kinora_worker** out) {
  return guard([&] { *out = new kinora_worker{{the_program(), *spec}}; });
}

void stop(kinora_worker* worker) { delete worker; }

// An error's message is the calling thread's last one already where the stage gave a status.
int32_t process(kinora_worker* worker, kinora_sample* in, const kinora_emit* emit, const kinora_run* run) {
  int32_t status = KINORA_OK;
  const int32_t failed = guard([&] { status = worker->worker.process(Sample::borrow(in), *emit, *run); });
  return failed != KINORA_OK ? failed : status;
}

int32_t finish(kinora_worker* worker, const kinora_emit* emit, const kinora_run* run) {
  int32_t status = KINORA_OK;
  const int32_t failed = guard([&] { status = worker->worker.finish(*emit, *run); });
  return failed != KINORA_OK ? failed : status;
}

int32_t ended(const kinora_worker* worker) { return worker->worker.ended() ? 1 : 0; }
int64_t pid(const kinora_worker* worker) { return worker->worker.pid(); }

}  // namespace

void offer_workers(WorkerProgram program) {
  static const kinora_workers_api table{
      sizeof(kinora_workers_api), 0, start, stop, process, finish, ended, pid};
  for (auto& dir : program.plugin_dirs) dir = std::filesystem::absolute(dir);
  the_program() = std::move(program);
  register_interface(KINORA_WORKERS, 0, &table);
}

}  // namespace kinora::core
