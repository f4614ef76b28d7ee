#include "tests/faults/workers/job.hpp"

#include <chrono>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/plugin/options.hpp"
#include "host/workers/service.hpp"
#include "host/workers/worker.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

Runtime& runtime() {
  static Runtime* one = [] {
    auto* made = or_throw(Runtime::start({.plugin_dirs = {KINORA_FAULTY}, .log_level = "error"})).release();
    offer_workers({KINORA_PROGRAM, {KINORA_FAULTY}});
    return made;
  }();
  return *one;
}

Ran Job::run() {
  Runtime& r = runtime();
  const auto local = or_throw(r.registry().open("engine/local"));
  const auto faulty = or_throw(r.registry().open("stage/faulty"));
  const Options engine_options = or_throw(Options::make(*local.spec, engine));
  const Options stage_options = or_throw(Options::make(*faulty.spec, stage));
  kinora_stage_spec spec{};
  spec.struct_size = sizeof spec;
  spec.name = "fault";
  spec.id = "stage/faulty";
  spec.options_json = stage_options.canonical().c_str();
  spec.stage = &faulty.table<kinora_stage>();
  spec.options = stage_options.abi();
  kinora_pipeline pipeline{};
  pipeline.struct_size = sizeof pipeline;
  pipeline.n_stages = 1;
  const kinora_stage_spec* stages = &spec;
  pipeline.stages = &stages;
  pipeline.memory = 64 << 20;
  pipeline.self = this;
  pipeline.next = [](void* self, kinora_sample** out) { return static_cast<Job*>(self)->next(out); };
  pipeline.done = [](void* self, const kinora_outcome* o) { return static_cast<Job*>(self)->done(*o); };
  kinora_run call{};
  call.struct_size = sizeof call;
  call.device_type = KINORA_DL_CPU;
  call.n_threads = 2;
  call.self = this;
  call.cancelled = [](void* self) {
    return static_cast<Job*>(self)->cancel ? KINORA_ERROR_CANCELLED : KINORA_OK;
  };
  const auto start = std::chrono::steady_clock::now();
  try {
    void* self = local.table<kinora_engine>().create(host(), engine_options.abi());
    check(self ? KINORA_OK : KINORA_ERROR_FAILED);
    const int32_t status = local.table<kinora_engine>().run(self, &pipeline, &call);
    const std::string message(view(host()->last_error(host())));
    local.table<kinora_engine>().destroy(self);
    if (status != KINORA_OK) ran_.error = message;
  } catch (const Error& e) {
    ran_.error = e.what();
  }
  ran_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ran_;
}

int32_t Job::next(kinora_sample** out) {
  if (at_ == keys.size()) return KINORA_SIGNAL_END;
  Sample s(keys[at_]);
  s.set("json", "{\"n\": " + std::to_string(at_++) + "}");
  s.set("empty", "");
  if (!url.empty()) s.set("url", url);
  s.set("mp4", std::vector<uint8_t>(media + at_, static_cast<uint8_t>(at_)));
  s.set_tensor("frames", std::vector<uint8_t>(2 * 30 * 40 * 3 * 10, 9), {20, 30, 40, 3}, KINORA_DL_UINT, 8);
  *out = s.release();
  return KINORA_OK;
}

int32_t Job::done(const kinora_outcome& o) {
  const Sample s = Sample::borrow(o.sample);
  const std::string key(s.key());
  ran_.ends[key] = o.end == KINORA_OUTCOME_KEPT ? o.consumed ? "consumed" : "kept"
                   : o.reason                   ? o.reason
                                                : "?";
  ++ran_.times[key];
  if (const auto pid = s.text("pid"); pid && ran_.pids.insert(std::string(*pid)).second) {
    std::ifstream file("/proc/" + std::string(*pid) + "/environ");
    ran_.environments.insert(std::string(std::istreambuf_iterator<char>(file), {}));
    std::ifstream status("/proc/" + std::string(*pid) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("NoNewPrivs:")) ran_.rights.insert(line);
  }
  for (const auto& f : s.fields())
    if (f.name != "pid")
      ran_.fields[key + "." + std::string(f.name)] = {reinterpret_cast<const char*>(f.bytes.data()),
                                                      f.bytes.size()};
  if (const auto* t = s.tensor("frames"))
    ran_.fields[key + ".frames"] = std::string(static_cast<const char*>(t->data), 2 * 30 * 40 * 3 * 10) +
                                   std::to_string(t->ndim) + std::to_string(t->shape[0]);
  return KINORA_OK;
}

Scratch::Scratch(const char* name)
    : path_(std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()))) {
  std::filesystem::remove(path_);
}

std::string Scratch::text() const {
  std::ifstream in(path_);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string logged(const std::function<void()>& run) {
  const Scratch file("kinora-heard-");
  runtime();
  {
    const auto log = or_throw(LogFile::open(file.name()));  // closing it writes its last line
    EXPECT_TRUE(set_log_level("info"));
    run();
    EXPECT_TRUE(set_log_level("error"));
  }
  return file.text();
}

int times(const std::string& text, const std::string& words) {
  int n = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace kinora::core
