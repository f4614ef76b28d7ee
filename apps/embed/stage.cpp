// Open stages of the C API (kinora/embed.h), and kinora_embed_apply(), which keeps some open.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>

#include "apps/command/surroundings.hpp"
#include "apps/embed/embed.hpp"

namespace kinora::core::embed {
namespace {

constexpr size_t kKept = 4;  // lists of stages, as kinora/embed.h says

json list_of(const char* stages) {
  json list = json::parse(stages ? stages : "", nullptr, false);
  if (list.is_discarded())
    throw Error(KINORA_ERROR_INVALID, "stages: not JSON; expected a list such as [\"video.probe\"]");
  return list;
}

void set_device(kinora_run& run, std::string_view name) {
  if (name == "cpu") return;
  const bool has_index = name.starts_with("cuda:");
  const std::string_view index = has_index ? name.substr(5) : "0";
  const char* last = index.data() + index.size();
  const auto [end, error] = std::from_chars(index.data(), last, run.device_id);
  if ((!has_index && name != "cuda") || error != std::errc() || end != last || run.device_id < 0)
    throw Error(KINORA_ERROR_INVALID, fmt::format("device = \"{}\": expected cpu, cuda or cuda:1", name));
  run.device_type = KINORA_DL_CUDA;
}

kinora_run run_of(OwnCall& call, const kinora_embed_stage_options& how, std::string_view out) {
  static const auto of = [](void* self) -> OwnCall& {
    return static_cast<OwnCall&>(*static_cast<Call*>(self));
  };
  static const auto stop = [](void* self) -> int32_t {
    const OwnCall& own = of(self);
    return *own.cancels == own.at_begin ? KINORA_OK : KINORA_ERROR_CANCELLED;
  };
  call.seed = how.seed;
  kinora_run run = core::run_of(call);
  run.cancelled = stop;
  run.progress = [](void* self, int64_t, int64_t, kinora_tensor) {
    ++of(self).beats;
    return stop(self);
  };
  run.seed = how.seed;
  const auto processors = std::max(1u, std::thread::hardware_concurrency());
  run.n_threads = how.n_threads > 0 ? how.n_threads : static_cast<int32_t>(processors);
  run.out = str(out);
  set_device(run, how.device ? how.device : "cpu");
  return run;
}

// A stage in a process of its own calls every function, also those that the caller has left out.
kinora_emit with_all(kinora_emit to) {
  to.struct_size = sizeof to;
  if (!to.hold)
    to.hold = [](void*) {
      return set_error(KINORA_ERROR_REFUSED,
                       "this program holds no inputs, which this stage needs; give its kinora_emit a hold()");
    };
  if (!to.drop)
    to.drop = [](void*, kinora_sample* sample, const char*, double) -> int32_t {
      Sample::adopt(sample);
      return KINORA_OK;
    };
  if (!to.stored) to.stored = [](void*, kinora_str) -> int32_t { return KINORA_OK; };
  if (!to.made_of) to.made_of = [](void*, const kinora_str*, uint64_t) -> int32_t { return KINORA_OK; };
  if (!to.fail)
    to.fail = [](void*, kinora_sample* sample, const char* reason) {
      Sample::adopt(sample);
      return set_error(KINORA_ERROR_DATA, reason ? reason : "failed");
    };
  return to;
}

// The stages of a list that are kept open, or null.
std::unique_ptr<kinora_embed_stage> take(kinora_embed& host, const std::string& text) {
  const std::scoped_lock lock(host.mutex);
  const auto found =
      std::find_if(host.kept.begin(), host.kept.end(), [&](const auto& one) { return one.first == text; });
  if (found == host.kept.end()) return nullptr;
  auto out = std::move(found->second);
  host.kept.erase(found);
  return out;
}

void keep(kinora_embed& host, std::string text, std::unique_ptr<kinora_embed_stage> stage) {
  decltype(host.kept) closed;  // without the lock
  const std::scoped_lock lock(host.mutex);
  host.kept.emplace_front(std::move(text), std::move(stage));
  if (host.kept.size() > kKept) closed.splice(closed.begin(), host.kept, std::prev(host.kept.end()));
}

void apply(kinora_embed& host, const char* stages, std::span<kinora_sample* const> in,
           const kinora_emit& to) {
  const uint64_t at_begin = host.cancels;
  // Options may be relative paths.
  const std::string text = std::filesystem::current_path().string() + "\n" + (stages ? stages : "");
  kinora_embed_stage_options how{};
  how.stages = stages;
  auto open = take(host, text);
  if (!open) open = std::make_unique<kinora_embed_stage>(host.runtime->registry(), how);
  if (open->apply(in, to, host.cancels, at_begin)) keep(host, text, std::move(open));
}

}  // namespace
}  // namespace kinora::core::embed

namespace core = kinora::core;
namespace embed = kinora::core::embed;

kinora_embed_stage::kinora_embed_stage(core::Registry& registry, const kinora_embed_stage_options& how)
    : out_(how.out ? how.out : std::filesystem::current_path().string()),
      run_(embed::run_of(call_, how, out_)),
      chain_(registry, embed::list_of(how.stages), to_, run_) {}

template <class F>
void kinora_embed_stage::during(const kinora_emit& to, const embed::Cancels& by, uint64_t at_begin, F work) {
  if (is_busy_.exchange(true))
    throw kinora::Error(KINORA_ERROR_INVALID, "this stage is in a call already; wait until that returns");
  const struct End {
    std::atomic<bool>& is_busy;
    std::atomic<uint64_t>& beats;
    ~End() { ++beats, is_busy = false; }
  } end{is_busy_, call_.beats};
  const kinora::ThreadModes own;
  ++call_.beats;
  if (is_finished_)
    throw kinora::Error(KINORA_ERROR_INVALID, "this stage is finished; close it and open another");
  if (!to.emit)
    throw kinora::Error(KINORA_ERROR_INVALID, "kinora_emit has no emit(), which takes the samples");
  call_.cancels = &by;
  call_.at_begin = at_begin;
  to_ = embed::with_all(to);
  has_died = false;
  try {
    work();
  } catch (const core::StageInstance::ProcessEnded&) {
    has_died = true;
    throw;
  } catch (const kinora::Error& e) {  // a stage in C need not say so
    if (e.code() == KINORA_ERROR_CANCELLED) throw kinora::Error(e.code(), "cancelled");
    throw;
  }
}

void kinora_embed_stage::process_by(core::StageInstance& stage, std::span<kinora_sample* const> in) {
  if (in.size() == 1) return stage.process(in.front(), to_, run_);
  const uint32_t most = std::max(1u, stage.resources().batch);
  if (in.size() > most)
    throw kinora::Error(KINORA_ERROR_INVALID,
                        fmt::format("{} takes {} at once, not {}: batch of its resources", stage.id(),
                                    most == 1 ? "one sample" : fmt::format("{} samples", most), in.size()));
  if (!in.empty()) stage.process_batch(in, to_, run_);
}

// Stages that are quick never ask whether they are to stop.
void kinora_embed_stage::process_by_chain(std::span<kinora_sample* const> in) {
  for (kinora_sample* one : in) {
    if (run_.cancelled(run_.self) != KINORA_OK) throw kinora::Error(KINORA_ERROR_CANCELLED, "cancelled");
    chain_.process(kinora::Sample::borrow(one));
  }
}

void kinora_embed_stage::process(std::span<kinora_sample* const> in, const kinora_emit& to) {
  during(to, cancels, cancels, [&] {
    if (auto* stage = chain_.only()) return process_by(*stage, in);
    process_by_chain(in);
  });
}

void kinora_embed_stage::finish(const kinora_emit& to) {
  during(to, cancels, cancels, [&] {
    is_finished_ = true;
    if (auto* stage = chain_.only()) return stage->finish(to_, run_);
    chain_.finish();
  });
}

kinora_resources kinora_embed_stage::resources() {
  if (auto* stage = chain_.only()) return stage->resources();
  throw kinora::Error(KINORA_ERROR_INVALID, "a chain has no resources of its own; open each of its stages");
}

bool kinora_embed_stage::apply(std::span<kinora_sample* const> in, const kinora_emit& to,
                               const embed::Cancels& of_host, uint64_t at_begin) {
  bool can_continue = false;
  during(to, of_host, at_begin, [&] {
    process_by_chain(in);
    can_continue = chain_.can_continue();
    chain_.finish();
  });
  return can_continue;
}

extern "C" {

int32_t kinora_embed_stage_open(kinora_embed* host, const kinora_embed_stage_options* options,
                                kinora_embed_stage** out) {
  return kinora::guard([&] {
    const kinora::ThreadModes own;
    *out = new kinora_embed_stage(host->runtime->registry(), *options);
  });
}

void kinora_embed_stage_close(kinora_embed_stage* stage) {
  kinora::guard([&] { delete stage; });
}

int32_t kinora_embed_stage_resources(kinora_embed_stage* stage, kinora_resources* out) {
  return kinora::guard([&] {
    const kinora_resources all = stage->resources();
    KINORA_FILL(out, &all);
  });
}

int32_t kinora_embed_stage_process(kinora_embed_stage* stage, kinora_sample* const* in, uint64_t n,
                                   const kinora_emit* to) {
  return kinora::guard([&] { stage->process({in, n}, *to); });
}

int32_t kinora_embed_stage_finish(kinora_embed_stage* stage, const kinora_emit* to) {
  return kinora::guard([&] { stage->finish(*to); });
}

void kinora_embed_stage_cancel(kinora_embed_stage* stage) { ++stage->cancels; }

uint64_t kinora_embed_stage_beats(const kinora_embed_stage* stage) { return stage->beats(); }

int32_t kinora_embed_stage_ended(const kinora_embed_stage* stage) { return stage->has_died ? 1 : 0; }

int32_t kinora_embed_apply(kinora_embed* host, const char* stages, kinora_sample* const* samples, uint64_t n,
                           const kinora_emit* to) {
  return kinora::guard([&] { embed::apply(*host, stages, {samples, n}, *to); });
}

}  // extern "C"
