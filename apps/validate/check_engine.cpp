// Checks of engines: a pipeline of two stages in this process. Stages in processes of their own are not tried.
#include <atomic>
#include <map>

#include "apps/validate/trial_call.hpp"
#include "kinora/abi/engine.h"
#include "kinora/stage.hpp"

namespace kinora {
namespace engine_checks_of {
namespace {

constexpr int kInputs = 200;

// The first stage of a sample ends it as its number says, and marks what it emits; the next one passes it on.
class Step final : public Stage {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) { d.name("step"); }
  explicit Step(const Options&) {}

  void process(Sample in, const Emit& emit, const Run&) override {
    if (in.text("seen")) return emit(std::move(in));
    const std::string key(in.key());
    const int number = std::stoi(key.substr(key.find('-') + 1));
    if (number % 4 == 1) return emit.drop(std::move(in), "every.fourth", 0.5);
    if (number % 4 == 2) throw Error(KINORA_ERROR_DATA, "damaged");
    Sample out = number % 4 == 3 ? in.clone(key + "-0000") : in;
    out.set("seen", "1");
    emit(std::move(out));
  }
  kinora_resources resources() const override { return {sizeof(kinora_resources), 0, 1.0}; }
};

// The pipeline, its inputs and what is reported of them.
class Pipeline {
 public:
  Pipeline(const PluginTrial& t, int fail_at, bool is_cancelled)
      : fail_at_(fail_at), is_cancelled_(is_cancelled) {
    static const core::Options none;
    for (auto* spec : {&first_, &second_}) {
      spec->struct_size = sizeof *spec;
      spec->id = "stage/step";
      spec->options_json = "{}";
      spec->stage = static_cast<const kinora_stage*>(Stage::api<Step>());
      spec->options = none.abi();
    }
    first_.name = "first";
    second_.name = "second";
    second_.from = &from_;
    second_.n_from = 1;
    pipeline_ = {sizeof pipeline_,
                 2,
                 stages_,
                 0,
                 this,
                 [](void* self, kinora_sample** out) { return static_cast<Pipeline*>(self)->next(out); },
                 [](void* self, const kinora_outcome* o) { return static_cast<Pipeline*>(self)->done(*o); },
                 nullptr,
                 nullptr};
    folder_ = t.folder;
    run_.struct_size = sizeof run_;
    run_.device_type = KINORA_DL_CPU;
    run_.n_threads = 4;
    run_.seed = t.subject.seed;
    run_.out = str(folder_);
    run_.self = this;
    run_.progress = [](void* self, int64_t, int64_t, kinora_tensor) { return cancelled(self); };
    run_.cancelled = cancelled;
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  const kinora_pipeline* pipeline() const { return &pipeline_; }
  const kinora_run* run() const { return &run_; }
  void need_unknown() { run_.needs = kUnknownNeed; }
  std::map<std::string, std::string> outcomes;  // by key
  std::string wrong;                            // the first outcome that must not be

 private:
  static int32_t cancelled(void* self) {
    return static_cast<Pipeline*>(self)->is_cancelled_ && static_cast<Pipeline*>(self)->given_ > kInputs / 2
               ? set_error(KINORA_ERROR_CANCELLED, "cancelled by the check")
               : KINORA_OK;
  }
  int32_t next(kinora_sample** out) {
    if (given_ == kInputs) return KINORA_SIGNAL_END;
    return guard([&] { *out = Sample(fmt::format("input-{:04d}", given_++)).release(); });
  }
  int32_t done(const kinora_outcome& o) {
    const std::string key(view(samples_api().key(o.sample)));
    const std::string how =
        fmt::format("{} at {}, {}, score {:g}, status {}, made {}", o.end, o.stage ? o.stage : "the end",
                    o.reason && o.end == KINORA_OUTCOME_FILTERED ? o.reason : "", o.score, o.status, o.made);
    if (!outcomes.emplace(key, how).second && wrong.empty()) wrong = "'" + key + "' has two outcomes";
    for (uint32_t i = 0; i < o.n_parents && wrong.empty(); ++i)
      if (outcomes.count(std::string(view(o.parents[i]))))
        wrong = "the outcome of '" + key + "' comes after that of '" + std::string(view(o.parents[i])) +
                "', of which it was made";
    return static_cast<int>(outcomes.size()) == fail_at_
               ? set_error(KINORA_ERROR_DATA, "the record's own words")
               : KINORA_OK;
  }

  kinora_stage_spec first_{}, second_{};
  const kinora_stage_spec* stages_[2] = {&first_, &second_};
  const uint32_t from_ = 0;
  kinora_pipeline pipeline_{};
  kinora_run run_{};
  std::string folder_;
  std::atomic<int> given_ = 0;
  const int fail_at_;
  const bool is_cancelled_;
};

// The status of run().
int32_t run(PluginTrial& t, Pipeline& p) {
  const core::Options options = t.options();
  const TrialInstance<kinora_engine> made(t, options);
  int32_t status = KINORA_OK;
  answer("run() of 200 samples through two stages",
         [&] { return status = made.api.run(made.self, p.pipeline(), p.run()); });
  return status;
}

std::map<std::string, std::string> expected_outcomes() {
  std::map<std::string, std::string> out;
  for (int i = 0; i < kInputs; ++i) {
    static const std::string plain = ", , score 0, status 0, made ";
    const auto key = fmt::format("input-{:04d}", i);
    out[key] = i % 4 == 0   ? "0 at the end" + plain + "0"
               : i % 4 == 1 ? "1 at first, every.fourth, score 0.5, status 0, made 0"
               : i % 4 == 2 ? fmt::format("2 at first, , score 0, status {}, made 0", KINORA_ERROR_DATA)
                            : "0 at first" + plain + "0";
    if (i % 4 == 3) out[key + "-0000"] = "0 at the end" + plain + "1";
  }
  return out;
}

std::string check_outcomes(PluginTrial& t) {
  const int64_t before = watch().samples;
  Pipeline p(t, -1, false);
  if (const int32_t status = run(t, p); status == KINORA_ERROR_UNSUPPORTED)
    throw Error(status,
                "run() of the simplest pipeline, one stage after another in this process, returned "
                "KINORA_ERROR_UNSUPPORTED: " +
                    std::string(view(host()->last_error(host()))));
  else
    require_ok(status, "run()");
  if (!p.wrong.empty()) throw Error(KINORA_ERROR_FAILED, p.wrong);
  for (const auto& [key, how] : expected_outcomes())
    if (const auto found = p.outcomes.find(key); found == p.outcomes.end() || found->second != how)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("the outcome of '{}' is: {}; {} is expected (KINORA_OUTCOME_*)", key,
                              found == p.outcomes.end() ? "none" : found->second, how));
  if (p.outcomes.size() != expected_outcomes().size())
    throw Error(KINORA_ERROR_FAILED, fmt::format("done() was called for {} samples; there are {}",
                                                 p.outcomes.size(), expected_outcomes().size()));
  if (const int64_t left = watch().samples - before; left != 0)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("{} references to samples are left when run() has returned", left));
  return fmt::format("{} samples, {} outcomes", kInputs, p.outcomes.size());
}

std::string check_stops(PluginTrial& t) {
  for (const bool is_cancelled : {false, true}) {
    Pipeline p(t, is_cancelled ? -1 : 20, is_cancelled);
    const int32_t status = run(t, p), expected = is_cancelled ? KINORA_ERROR_CANCELLED : KINORA_ERROR_DATA;
    if (status == KINORA_ERROR_UNSUPPORTED) throw Skipped{"it runs nothing; see the check 'pipeline'"};
    if (status != expected)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("run() returned {} after {} returned {}; return that status", status,
                              is_cancelled ? "cancelled()" : "done()", expected));
  }
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  Pipeline p(t, -1, false);
  p.need_unknown();
  require_refused([&] { return run(t, p); }, "run() with an unknown bit of `needs`");
  return "";
}

constexpr Check kChecks[] = {
    {"pipeline", "engine",
     "each of 200 samples, and each that two stages make of them, has its one outcome, in order", false,
     nullptr, check_outcomes},
    {"engine-needs", "engine", "it refuses a run that needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"engine-stops", "engine", "an error of done() and a cancelled run end it with that status", false,
     nullptr, check_stops}};

}  // namespace
}  // namespace engine_checks_of

std::span<const Check> engine_checks() { return engine_checks_of::kChecks; }

}  // namespace kinora
