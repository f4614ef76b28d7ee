#include "plugins/jobs/pipeline/pipeline.hpp"

#include <algorithm>
#include <thread>
#include <unistd.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/terminal.hpp"
#include "core/plugin/opening.hpp"
#include "core/run/job_check.hpp"
#include "core/run/job_stages.hpp"
#include "plugins/jobs/pipeline/live_rows.hpp"

namespace kinora::core {
namespace {

// The state of the engine's callbacks during a run.
struct RunningPipeline {
  const PipelineJob& job;
  Progress progress;
  Live live;
  PipelineResult result;
  RecentRates rates;

  static RunningPipeline& of(void* self) { return *static_cast<RunningPipeline*>(self); }

  int32_t next(kinora_sample** out) {
    int32_t status = KINORA_SIGNAL_END;
    const int32_t failed = guard([&] {
      auto sample = job.next();
      if (!sample) return;
      *out = sample->release();
      status = KINORA_OK;
    });
    return failed ? failed : status;
  }

  void done(const kinora_outcome& outcome) {
    const Sample sample = Sample::borrow(outcome.sample);
    Counts& counts = outcome.made ? result.made : result.inputs;
    const bool again = job.ended_before && job.ended_before(sample, outcome);
    if (job.ended) job.ended(sample, outcome);
    if (again) return;
    if (outcome.end == KINORA_OUTCOME_KEPT) ++counts.kept;
    if (outcome.end == KINORA_OUTCOME_FILTERED) {
      ++counts.filtered;
      ++result.rules[outcome.reason ? outcome.reason : ""];
    }
    if (outcome.end == KINORA_OUTCOME_FAILED) {
      ++counts.failed;
      log_warn("{}: failed in {}: {}", job.called ? job.called(sample) : std::string(sample.key()),
               outcome.stage ? outcome.stage : "the engine", outcome.reason ? outcome.reason : "");
    }
    if (job.pace) progress.pace(job.pace());
    progress.update(inputs_done(), outcomes());
  }

  // Inputs that are kept are those that are done.
  std::string outcomes() const {
    const Counts made = job.made_before + result.made,
                 inputs =
                     job.before + result.inputs + (job.ended_at_source ? job.ended_at_source() : Counts());
    const std::string out = outcomes_text(made.kept, made.filtered, made.failed, "clips");
    if (out.empty()) return outcomes_text(0, inputs.filtered, inputs.failed, job.unit);
    const std::string others = outcomes_text(0, inputs.filtered, inputs.failed, "");
    return others.empty() ? out : fmt::format("{}; of the {}: {}", out, job.unit, others);
  }

  int64_t inputs_done() const {
    return result.inputs.sum() + (job.ended_before_stages ? job.ended_before_stages() : 0);
  }

  void report(const char* text) {
    auto figures = nlohmann::json::parse(text, nullptr, false);
    result.figures = figures;
    if (figures.is_object() && job.usage) figures["usage"] = job.usage();
    if (figures.is_object() && job.left) figures["left"] = job.left();
    const std::vector<std::string> at_work = job.at_work ? job.at_work() : std::vector<std::string>();
    if (job.pace) progress.pace(job.pace());
    nlohmann::json shown = figures;
    rates.smooth(shown);
    live.update(std::move(figures), inputs_done(), (job.made_before + result.made).sum());
    progress.table(live_rows(shown, outcomes(), at_work, columns_of(STDERR_FILENO, 80) - 1, draws_colours()));
  }
};

// The stages of a job with everything that a kinora_stage_spec points to.
struct Specs {
  std::vector<std::string> names;
  std::vector<std::vector<uint32_t>> from;
  std::vector<kinora_stage_spec> specs;
  std::vector<const kinora_stage_spec*> pointers;
};

Specs specs_of(JobContext& context, const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string& message) {
    throw Error(KINORA_ERROR_INVALID, message);
  });
  Specs out;
  std::vector<uint32_t> place(stages.size());
  out.names.reserve(stages.size());
  out.from.reserve(stages.size());
  for (const size_t number : graph.order) {
    const ComponentUse& use = *stages[number];
    place[number] = static_cast<uint32_t>(out.specs.size());
    const Component component = context.open(use);
    out.names.push_back(use.called());
    auto& from = out.from.emplace_back();
    for (const size_t f : graph.from[number]) from.push_back(place[f]);
    kinora_stage_spec spec{};
    spec.struct_size = sizeof spec;
    spec.name = out.names.back().c_str();
    spec.id = component.spec->id.c_str();
    spec.options_json = use.options.canonical().c_str();
    spec.stage = &component.table<kinora_stage>();
    spec.options = use.options.abi();
    spec.n_from = static_cast<uint32_t>(from.size());
    spec.from = from.data();
    out.specs.push_back(spec);
  }
  for (const auto& spec : out.specs) out.pointers.push_back(&spec);
  return out;
}

}  // namespace

PipelineResult run_pipeline(JobContext& context, const PipelineJob& job) {
  const Specs specs = specs_of(context, job.stages);
  RunningPipeline running{job,
                          {context.spec().name, job.total, job.unit},
                          {context.spec().name, context.folder(), job.total},
                          {},
                          {}};
  kinora_pipeline pipeline{};
  pipeline.struct_size = sizeof pipeline;
  pipeline.n_stages = static_cast<uint32_t>(specs.specs.size());
  pipeline.stages = specs.pointers.data();
  pipeline.memory = static_cast<uint64_t>(job.memory);
  pipeline.self = &running;
  pipeline.next = [](void* self, kinora_sample** out) { return RunningPipeline::of(self).next(out); };
  pipeline.done = [](void* self, const kinora_outcome* o) {
    return guard([&] { RunningPipeline::of(self).done(*o); });
  };
  pipeline.report = [](void* self, const char* text) {
    static_cast<void>(guard([&] { RunningPipeline::of(self).report(text); }));
  };

  if (!job.store.empty()) pipeline.store = job.store.c_str();

  kinora_run call = context.call();
  call.n_threads = static_cast<int32_t>(job.threads > 0 ? job.threads : std::thread::hardware_concurrency());
  const auto& engine = context.open(*job.engine).table<kinora_engine>();
  void* self = made([&] { return engine.create(host(), job.engine->options.abi()); }, job.engine->id);
  const std::unique_ptr<void, void (*)(void*)> owned(self, engine.destroy);
  const int32_t status = engine.run(self, &pipeline, &call);
  running.live.end(cancelled() ? "interrupted" : status == KINORA_OK ? "done" : "failed");
  check(status);
  if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  return std::move(running.result);
}

void check_engine(JobCheck& check, const std::vector<const ComponentUse*>& stages) {
  check_isolated(check, stages);
  const ComponentUse* use = check.spec().component("engine");
  if (!use) return;
  try {
    const Component component = open_component(check.runtime().registry(), "engine", use->id);
    const auto& engine = component.table<kinora_engine>();
    engine.destroy(made([&] { return engine.create(host(), use->options.abi()); }, use->id));
  } catch (const Error& e) {
    check.problem(use->at, e.what());
  }
}

}  // namespace kinora::core
