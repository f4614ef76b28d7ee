#include "host/stages/one_stage.hpp"

#include "core/base/log.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/opening.hpp"
#include "core/runtime/call.hpp"
#include "host/workers/service.hpp"
#include "host/workers/worker.hpp"
#include "kinora/error.hpp"
#include "kinora/memory.hpp"
#include "kinora/stage.hpp"

namespace kinora::core {
namespace {

// Default of engine/local: half of three quarters of the machine's memory.
uint64_t memory_of_a_worker() { return memory_of_machine() / 8 * 3; }

// Removes the names of engine options from a worker's message: there is no engine here.
std::string without_options(std::string message) {
  for (const std::string_view option : {" (item_timeout)", " (item_limit)", " (item_memory)"})
    if (const size_t at = message.find(option); at != message.npos) message.erase(at, option.size());
  return message;
}

}  // namespace

StageInstance::StageInstance(Registry& registry, const std::string& id, const Options& options,
                             const Isolation& isolation)
    : id_(or_throw(registry.find("stage", id))->id), options_(options.canonical()), isolation_(isolation) {
  const PluginInfo plugin = or_throw(registry.plugin_of(id_));
  const auto* workers =  // which have not what is part of this program
      isolation_.is_allowed && workers_are_offered() && !plugin.library.empty()
          ? static_cast<const kinora_workers_api*>(host()->get_interface(host(), KINORA_INTERFACE_WORKERS, 0))
          : nullptr;
  // Not even its library is opened here.
  if (workers && !is_built_in(plugin)) {
    workers_ = workers;
    start_worker();
    return;
  }
  stage_ = &open_component(registry, "stage", id_).table<kinora_stage>();
  self_ = made([&] { return stage_->create(host(), options.abi()); }, id_);
  if (workers && !isolation_.trusts_media && resources().isolated != 0) workers_ = workers;
}

StageInstance::~StageInstance() {
  if (worker_) workers_->stop(worker_);
  if (self_) stage_->destroy(self_);
}

kinora_worker_spec StageInstance::worker_spec() const {
  constexpr double kLimit = 43200;  // seconds per sample, as in engine/local
  return {sizeof(kinora_worker_spec),
          0,
          id_.c_str(),
          id_.c_str(),
          options_.c_str(),
          isolation_.timeout,
          memory_of_a_worker(),
          kLimit,
          0};
}

void StageInstance::start_worker() {
  const kinora_worker_spec spec = worker_spec();
  called(workers_->start(&spec, &worker_), id_);
}

kinora_resources StageInstance::resources() const {
  kinora_resources out{};
  out.struct_size = sizeof out;
  if (self_)
    called(stage_->resources(self_, &out), id_);
  else
    out = ask_apart(worker_spec());
  check_known(out, id_);
  if (workers_) out.batch = 0;
  return out;
}

bool StageInstance::keeps_nothing() const { return stage_ && !stage_->finish && resources().ordered != 1; }

template <class F>
void StageInstance::in_process(const std::string& of, F call) {
  if (!worker_) start_worker();
  const int32_t status = call();
  if (status == KINORA_OK || workers_->ended(worker_) == 0) return called(status, id_);
  const std::string message = without_options(from_abi(status, id_).failure().message);
  workers_->stop(std::exchange(worker_, nullptr));
  if (status == KINORA_ERROR_CANCELLED) throw Error(status, message);
  throw ProcessEnded(KINORA_ERROR_DATA, of + ": " + message);
}

void StageInstance::start_once(const kinora_run& run) {
  if (!started_) start_stage(*stage_, self_, run);
  started_ = true;
}

void StageInstance::process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run) {
  const std::string of = id_ + ": " + std::string(Sample::borrow(in).key());
  try {
    if (workers_) return in_process(of, [&] { return workers_->process(worker_, in, &emit, &run); });
    start_once(run);
    called(stage_->process(self_, in, &emit, &run), id_);
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED)
      log_warn("{}: stopped before it ended, as the run was to stop", of);
    throw;
  }
}

void StageInstance::process_batch(std::span<kinora_sample* const> in, const kinora_emit& emit,
                                  const kinora_run& run) {
  start_once(run);
  called(stage_->process_batch(self_, in.data(), static_cast<uint32_t>(in.size()), &emit, &run), id_);
}

void StageInstance::finish(const kinora_emit& emit, const kinora_run& run) {
  if (stage_ && !stage_->finish) return;
  if (!workers_) {
    start_once(run);
    return called(stage_->finish(self_, &emit, &run), id_);
  }
  in_process(id_, [&] { return workers_->finish(worker_, &emit, &run); });
}

kinora_emit StageResults::sink() {
  static const auto of = [](void* self) -> StageResults& { return *static_cast<StageResults*>(self); };
  kinora_emit e{};
  e.struct_size = sizeof e;
  e.self = this;
  e.emit = [](void* self, kinora_sample* s) {
    return guard([&] {
      of(self).emitted.push_back(Sample::adopt(s));
      of(self).held.erase(std::string(of(self).emitted.back().key()));
    });
  };
  e.drop = [](void* self, kinora_sample* s, const char* rule, double score) {
    return guard([&] {
      Sample sample = Sample::adopt(s);
      std::string key(sample.key());
      of(self).dropped.push_back({std::move(key), rule ? rule : "", score, std::move(sample)});
      of(self).held.erase(of(self).dropped.back().key);
    });
  };
  e.fail = [](void* self, kinora_sample* s, const char* reason) {
    return guard([&] {
      const Sample sample = Sample::adopt(s);
      of(self).failed.push_back({std::string(sample.key()), reason ? reason : ""});
      of(self).held.erase(of(self).failed.back().key);
    });
  };
  e.hold = [](void* self) {
    return guard([&] {
      if (of(self).input.empty()) throw Error(KINORA_ERROR_INVALID, "hold() is for the input of process()");
      of(self).held.insert(of(self).input);
    });
  };
  e.stored = [](void* self, kinora_str key) {
    return guard([&] {
      if (of(self).held.erase(std::string(view(key))) == 0)
        throw Error(KINORA_ERROR_NOT_FOUND,
                    "stored() of '" + std::string(view(key)) + "', which this stage does not hold");
    });
  };
  return e;
}

void StageResults::end_held() {
  for (const auto& key : held) failed.push_back({key, "held, and its outcome was never reported"});
  held.clear();
}

std::string damage_of(const Sample& sample) {
  for (const auto& field : sample.fields()) {
    if (field.name != "json" && !field.name.ends_with(".json")) continue;
    const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    // Most samples are undamaged, and scores are long.
    if (text.find("\"damaged\"") == std::string_view::npos) continue;
    const auto object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) continue;
    if (const auto found = object.find("damaged"); found != object.end() && found->is_string()) return *found;
  }
  return "";
}

namespace {

// Says why the stage emitted no sample.
std::string losses(const StageResults& results) {
  if (!results.failed.empty()) return " (" + results.failed.front().reason + ")";
  if (!results.held.empty()) return " (the stage still holds it)";
  return results.dropped.empty() ? "" : " (filtered by " + results.dropped.front().rule + ")";
}

void process_once(StageInstance& instance, const Sample& in, StageResults& results, double patience) {
  results = {};
  results.input = in.key();
  const kinora_emit sink = results.sink();
  NeededCall call;
  call.patience = patience;
  const kinora_run run = run_of(call);
  instance.process(in.clone(in.key()).get(), sink, run);
}

}  // namespace

OneStage::OneStage(Registry& registry, const std::string& id, const json& options, const Isolation& isolation)
    : OneStage(registry, id, or_throw(Options::make(*or_throw(registry.find("stage", id)), options)),
               isolation) {}

// A process may die of lack of memory, so a sample is at fault only if a second process dies of it too.
Sample OneStage::operator()(const Sample& in) const {
  StageResults results;
  try {
    process_once(instance_, in, results, patience_);
  } catch (const StageInstance::ProcessEnded& first) {
    log_warn("{}; trying again", first.what());
    try {
      process_once(instance_, in, results, patience_);
    } catch (const StageInstance::ProcessEnded& second) {
      throw Error(KINORA_ERROR_DATA, std::string(second.what()) + ", twice");
    }
  }
  if (results.emitted.size() != 1)
    throw Error(KINORA_ERROR_DATA, instance_.id() + ": " + std::string(in.key()) +
                                       ": expected one result, got " +
                                       std::to_string(results.emitted.size()) + losses(results));
  return std::move(results.emitted.front());
}

}  // namespace kinora::core
