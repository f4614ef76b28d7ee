#include "host/workers/service.hpp"

#include <map>
#include <mutex>

#include "core/base/log.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/registry.hpp"

struct kinora_worker {
  kinora::core::Worker worker;
};

namespace kinora::core {
namespace {

// Never destroyed: plugins may call it until the very end of the process.
WorkerProgram& the_program() {
  static auto* one = new WorkerProgram;
  return *one;
}

// Cached answers, by component and options. Never destroyed, as the program above.
struct Answers {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, kinora_resources> by_stage;
};
Answers& the_answers() {
  static auto* one = new Answers;
  return *one;
}

// A machine that is short of memory may kill a process as it starts, which says nothing about the stage. Any
// other death would happen again.
template <class Make>
auto try_to_make(const kinora_worker_spec& spec, Make&& make) {
  constexpr int kStarts = 3;
  for (int i = 1;; ++i) {
    try {
      return make();
    } catch (const WorkerDied& e) {
      if (!e.killed || i == kStarts) throw;
      log_warn("{}: {} while its instance was made; trying again", spec.name, e.how);
    }
  }
}

kinora_resources ask_again(const kinora_worker_spec& spec) {
  return try_to_make(spec, [&]() -> kinora_resources { return Worker(the_program(), spec).resources(); });
}

int32_t start(const kinora_worker_spec* spec, kinora_worker** out) {
  return guard([&] { *out = try_to_make(*spec, [&] { return new kinora_worker{{the_program(), *spec}}; }); });
}

void stop(kinora_worker* worker) { delete worker; }

// If the stage returned a status, the error's message is already the calling thread's last one.
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

int32_t ask(const kinora_worker_spec* spec, kinora_resources* out) {
  return guard([&] {
    const kinora_resources all = ask_apart(*spec);
    KINORA_FILL(out, &all);
  });
}

void over(const char* id) { after_call(id); }

}  // namespace

bool is_third_party(const Registry& registry, std::string_view id) {
  const auto plugin = registry.plugin_of(id);
  return plugin && !is_built_in(*plugin);
}

bool workers_are_offered() { return !the_program().program.empty(); }

void lock_workers(const std::filesystem::path& plugins_lock) { the_program().plugins_lock = plugins_lock; }

kinora_resources ask_apart(const kinora_worker_spec& spec) {
  Answers& answers = the_answers();
  const std::pair<std::string, std::string> stage{spec.id, spec.options_json};
  {
    const std::lock_guard lock(answers.mutex);
    if (const auto known = answers.by_stage.find(stage); known != answers.by_stage.end())
      return known->second;
  }
  const kinora_resources answer = ask_again(spec);
  const std::lock_guard lock(answers.mutex);
  return answers.by_stage.emplace(stage, answer).first->second;
}

void offer_workers(WorkerProgram program) {
  static const kinora_workers_api table{
      sizeof(kinora_workers_api), 0, start, stop, process, finish, ended, pid, ask, over};
  for (auto& dir : program.plugin_dirs) dir = std::filesystem::absolute(dir);
  if (!program.plugins_lock.empty()) program.plugins_lock = std::filesystem::absolute(program.plugins_lock);
  the_program() = std::move(program);
  register_interface(KINORA_INTERFACE_WORKERS, KINORA_ABI_MINOR, &table);
}

}  // namespace kinora::core
