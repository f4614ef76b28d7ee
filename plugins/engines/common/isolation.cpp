#include "plugins/engines/common/isolation.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "kinora/stage.hpp"
#include "plugins/engines/common/calling.hpp"
#include "plugins/engines/common/clock.hpp"

namespace kinora::engines {
namespace {

std::string quoted(const kinora_stage_spec& spec) { return "stage '" + std::string(spec.name) + "'"; }

// If the run is asked to stop while an instance is made, the error does not blame a stage.
Error error_of(const kinora_stage_spec& spec, int32_t status = KINORA_ERROR_FAILED) {
  if (status == KINORA_ERROR_CANCELLED) return {KINORA_ERROR_CANCELLED, "cancelled"};
  return {KINORA_ERROR_FAILED, quoted(spec) + ": " + std::string(view(host()->last_error(host())))};
}

// Before a call into a stage: a status without a message is not given the text of an older error.
void forget_errors() { host()->set_error(host(), KINORA_OK, ""); }

bool says(const std::vector<std::string>& which, const char* word) {
  return std::find(which.begin(), which.end(), word) != which.end();
}

// Calls a stage that runs in this process. The ABI forbids exceptions to leave it; one that does is an error
// of the call, and costs what an error costs.
template <class F>
int32_t contained(const char* function, F&& call) {
  std::string what;
  try {
    return call();
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    what = "an exception of unknown type";
  }
  return set_error(KINORA_ERROR_FAILED, (std::string(function) + " threw " + what).c_str());
}

// A call into the stage; the host then puts back what the stage changed of this process.
template <class F>
int32_t called(const kinora_stage_spec& spec, const char* function, F&& call) {
  static const kinora_workers_api* const workers = workers_of_host();
  const int32_t status = contained(function, std::forward<F>(call));
  if (workers) workers->over(spec.id);
  return status;
}

// The end of the task's call, with the message of this thread.
void report(Task& task, int32_t status) {
  task.done(status, status == KINORA_OK ? "" : last_message(status));
}

class InProcess final : public Instance {
 public:
  // Throws Error that names the stage.
  explicit InProcess(const kinora_stage_spec& spec) : spec_(spec) {
    forget_errors();
    called(spec, "create", [&] {
      self_ = spec.stage->create(host(), spec.options);
      return KINORA_OK;
    });
    if (!self_) throw error_of(spec);
  }
  ~InProcess() override { spec_.stage->destroy(self_); }
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;

  kinora_resources resources() const {
    kinora_resources r{sizeof(kinora_resources), 0, 1.0, 0.0, 0, 0, 0, 0, 0};
    forget_errors();
    kinora::check(called(spec_, "resources", [&] { return spec_.stage->resources(self_, &r); }));
    check_known(r, spec_.id);
    return r;
  }
  void send(Task& task) override {
    int32_t status = start(task.run);
    if (status == KINORA_OK) {
      Calling calling(task);
      const kinora_emit emit = calling.table();
      status = call(task, emit);
    }
    report(task, status);
  }
  bool is_apart() const override { return false; }
  bool ended() const override { return false; }

 private:
  // Calls the stage's start() before its first sample. An error becomes KINORA_ERROR_REFUSED, which ends the
  // run.
  int32_t start(const kinora_run& run) {
    const auto* stage = spec_.stage;
    forget_errors();
    if (started_ || !KINORA_HAS(stage, start) || !stage->start) return KINORA_OK;
    const int32_t status = called(spec_, "start", [&] { return stage->start(self_, &run); });
    started_ = status == KINORA_OK;
    if (started_) forget_errors();
    if (started_ || status == KINORA_ERROR_CANCELLED) return status;
    const std::string message(view(host()->last_error(host())));
    return set_error(KINORA_ERROR_REFUSED, message.c_str());
  }
  int32_t call(Task& task, const kinora_emit& emit) {
    using Call = Task::Call;
    const auto* stage = spec_.stage;
    if (task.call == Call::process)
      return called(spec_, "process",
                    [&] { return stage->process(self_, task.in->sample.get(), &emit, &task.run); });
    if (task.call == Call::finish)
      return called(spec_, "finish", [&] { return stage->finish(self_, &emit, &task.run); });
    std::vector<kinora_sample*> inputs;
    for (const Sample& sample : task.inputs) inputs.push_back(sample.get());
    return called(spec_, "process_batch", [&] {
      return stage->process_batch(self_, inputs.data(), static_cast<uint32_t>(inputs.size()), &emit,
                                  &task.run);
    });
  }

  const kinora_stage_spec& spec_;
  void* self_ = nullptr;
  bool started_ = false;
};

class InWorker final : public Instance {
 public:
  // Throws Error that names the stage.
  InWorker(const kinora_stage_spec& spec, const Isolation& isolation) : workers_(*isolation.workers) {
    const kinora_worker_spec asked{sizeof(kinora_worker_spec),
                                   0,
                                   spec.name,
                                   spec.id,
                                   spec.options_json,
                                   isolation.timeout,
                                   isolation.memory,
                                   isolation.limit,
                                   isolation.together};
    const int32_t status = workers_.start(&asked, &worker_);
    if (status != KINORA_OK) throw error_of(spec, status);
  }
  ~InWorker() override { workers_.stop(worker_); }
  InWorker(const InWorker&) = delete;
  InWorker& operator=(const InWorker&) = delete;

  void send(Task& task) override {
    forget_errors();
    int32_t status = KINORA_OK;
    {
      Calling calling(task);
      const kinora_emit emit = calling.table();
      status = task.call == Task::Call::finish
                   ? workers_.finish(worker_, &emit, &task.run)
                   : workers_.process(worker_, task.in->sample.get(), &emit, &task.run);
    }
    report(task, status);
  }
  bool is_apart() const override { return true; }
  bool ended() const override { return workers_.ended(worker_) != 0; }

 private:
  const kinora_workers_api& workers_;
  kinora_worker* worker_ = nullptr;
};

// Makes the instance and measures the time.
template <class Made, class... Arguments>
std::unique_ptr<Made> timed(double& seconds, Arguments&&... arguments) {
  const auto start = std::chrono::steady_clock::now();
  auto out = std::make_unique<Made>(std::forward<Arguments>(arguments)...);
  seconds = seconds_between(start, std::chrono::steady_clock::now());
  return out;
}

}  // namespace

const kinora_workers_api* workers_of_host() {
  return static_cast<const kinora_workers_api*>(host()->get_interface(host(), KINORA_INTERFACE_WORKERS, 0));
}

void Isolation::check(const kinora_pipeline& pipeline) const {
  for (const auto& name : which) {
    const bool known = name == "auto" || name == "none" || name == "all" ||
                       std::any_of(pipeline.stages, pipeline.stages + pipeline.n_stages,
                                   [&](const kinora_stage_spec* s) { return name == s->name; });
    if (!known)
      throw Error(KINORA_ERROR_INVALID,
                  "engine/local: isolate names '" + name +
                      "', which is not a stage of this job; give names of stages, or \"auto\", "
                      "\"none\" or \"all\"");
    if (!workers && name != "auto" && name != "none")
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  "engine/local: isolate = \"" + name +
                      "\", but this program starts no worker processes; set isolate = \"none\"");
  }
}

bool Isolation::asks_apart(const kinora_stage_spec& spec) const {
  return workers && (says(which, "all") || says(which, "auto") || says(which, spec.name));
}

kinora_resources Isolation::ask(const kinora_stage_spec& spec) const {
  const kinora_worker_spec asked{
      sizeof(kinora_worker_spec), 0, spec.name, spec.id, spec.options_json, timeout, memory, limit, 0};
  kinora_resources out{.struct_size = sizeof out};
  if (const int32_t status = workers->ask(&asked, &out); status != KINORA_OK) throw error_of(spec, status);
  return out;
}

bool Isolation::covers(const kinora_stage_spec& spec, const kinora_resources& resources) const {
  if (!workers) return false;
  return says(which, "all") || says(which, spec.name) || (says(which, "auto") && resources.isolated != 0);
}

FirstInstance Isolation::first(const kinora_stage_spec& spec) const {
  FirstInstance out;
  std::unique_ptr<InProcess> here;
  if (!asks_apart(spec)) here = timed<InProcess>(out.starting, spec);
  out.needs = here ? here->resources() : ask(spec);
  out.apart = covers(spec, out.needs);
  out.batches = !out.apart && KINORA_HAS(spec.stage, process_batch) && spec.stage->process_batch;
  out.finishes = spec.stage->finish != nullptr;
  if (out.apart) {
    here.reset();
    out.instance = timed<InWorker>(out.starting, spec, *this);
  } else {
    out.instance = here ? std::move(here) : timed<InProcess>(out.starting, spec);
  }
  return out;
}

std::unique_ptr<Instance> Isolation::make(const kinora_stage_spec& spec, bool apart) const {
  if (apart) return std::make_unique<InWorker>(spec, *this);
  return std::make_unique<InProcess>(spec);
}

void Isolation::start(const kinora_stage_spec& spec, bool apart, const Executor::Started& started) const {
  std::unique_ptr<Instance> made;
  std::optional<Error> why;
  try {
    made = make(spec, apart);
  } catch (const Error& e) {
    why = e;
  }
  started(std::move(made), why ? &*why : nullptr);
}

}  // namespace kinora::engines
