#include "plugins/engines/local/instance.hpp"

#include <algorithm>
#include <exception>

#include "kinora/stage.hpp"

namespace kinora::local {
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

Instance Instance::here(const kinora_stage_spec& spec) {
  Instance out;
  out.spec_ = &spec;
  forget_errors();
  contained("create", [&] {
    out.self_ = spec.stage->create(host(), spec.options);
    return KINORA_OK;
  });
  if (!out.self_) throw error_of(spec);
  return out;
}

Instance Instance::apart(const kinora_stage_spec& spec, const Isolation& isolation) {
  Instance out;
  out.spec_ = &spec;
  out.workers_ = isolation.workers;
  const kinora_worker_spec asked{sizeof(kinora_worker_spec),
                                 0,
                                 spec.name,
                                 spec.id,
                                 spec.options_json,
                                 isolation.timeout,
                                 isolation.memory,
                                 isolation.limit,
                                 isolation.together};
  const int32_t status = isolation.workers->start(&asked, &out.worker_);
  if (status != KINORA_OK) throw error_of(spec, status);
  return out;
}

Instance::~Instance() {
  if (self_) spec_->stage->destroy(self_);
  if (worker_) workers_->stop(worker_);
}

kinora_resources Instance::resources() const {
  kinora_resources r{sizeof(kinora_resources), 0, 1.0, 0.0, 0, 0, 0, 0, 0};
  forget_errors();
  kinora::check(contained("resources", [&] { return spec_->stage->resources(self_, &r); }));
  check_known(r, spec_->id);
  return r;
}

int32_t Instance::start(const kinora_run& run) {
  const auto* stage = spec_->stage;
  forget_errors();
  if (worker_ || started_ || !KINORA_HAS(stage, start) || !stage->start) return KINORA_OK;
  const int32_t status = contained("start", [&] { return stage->start(self_, &run); });
  started_ = status == KINORA_OK;
  if (started_) forget_errors();
  if (started_ || status == KINORA_ERROR_CANCELLED) return status;
  const std::string message(view(host()->last_error(host())));
  return set_error(KINORA_ERROR_REFUSED, message.c_str());
}

int32_t Instance::process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run) {
  if (const int32_t status = start(run); status != KINORA_OK) return status;
  if (worker_) return workers_->process(worker_, in, &emit, &run);
  return contained("process", [&] { return spec_->stage->process(self_, in, &emit, &run); });
}

int32_t Instance::process_batch(std::span<kinora_sample* const> in, const kinora_emit& emit,
                                const kinora_run& run) {
  if (const int32_t status = start(run); status != KINORA_OK) return status;
  return contained("process_batch", [&] {
    return spec_->stage->process_batch(self_, in.data(), static_cast<uint32_t>(in.size()), &emit, &run);
  });
}

int32_t Instance::finish(const kinora_emit& emit, const kinora_run& run) {
  if (const int32_t status = start(run); status != KINORA_OK) return status;
  if (worker_) return workers_->finish(worker_, &emit, &run);
  return contained("finish", [&] { return spec_->stage->finish(self_, &emit, &run); });
}

}  // namespace kinora::local
