// Runs the stages of a job on its engine, counts outcomes (every sample has exactly one, and the sums add
// up), and shows what the run is doing.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/run/job.hpp"
#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"
#include "plugins/jobs/live/live.hpp"

namespace kinora::core {

// Outcome counts of samples of one kind.
struct Counts {
  int64_t kept = 0, filtered = 0, failed = 0;
  int64_t sum() const { return kept + filtered + failed; }
  Counts operator+(const Counts& b) const {
    return {kept + b.kept, filtered + b.filtered, failed + b.failed};
  }
  nlohmann::json json() const { return {{"kept", kept}, {"filtered", filtered}, {"failed", failed}}; }
};

struct PipelineResult {
  Counts inputs, made;                   // inputs of the source, and samples that stages made from them
  std::map<std::string, int64_t> rules;  // filtered, by rule
  nlohmann::json figures;                // the engine's last report (abi/engine.h)
};

struct PipelineJob {
  std::vector<const ComponentUse*> stages;
  const ComponentUse* engine = nullptr;
  int64_t memory = 0, threads = 0, total = 0;  // total: inputs, for the progress bar
  std::string store;                           // kinora_pipeline.store; empty: kept samples come whole
  std::string unit = "items";
  // The next input, or nothing at the end.
  std::function<std::optional<Sample>()> next;
  Counts before, made_before;  // inputs that earlier runs had ended, and samples that they had made
  // [any-thread] Inputs of the total that ended before any stage, or in an earlier run; empty: none.
  std::function<int64_t()> ended_before_stages;
  // [any-thread] Those of this run, by outcome; empty: none.
  std::function<Counts()> ended_at_source;
  // [any-thread] What stages have requested from servers in this run, as in Usage; empty: not counted.
  std::function<nlohmann::json()> usage;
  // [any-thread] What the progress says in place of a rate and a time left by inputs, and which inputs are at work;
  // empty: by inputs, and none.
  std::function<std::string()> pace;
  std::function<double()> left;  // the same time in seconds, for live.json; 0: unknown
  std::function<std::vector<std::string>()> at_work;
  // The name of a failed sample in the log; empty: its key.
  std::function<std::string(const Sample&)> called;
  // [any-thread] Whether an earlier run recorded this outcome and made_before counts it; empty: never.
  std::function<bool(const Sample&, const kinora_outcome&)> ended_before;
  // Receives every outcome before it is counted; stores kept samples.
  std::function<void(const Sample&, const kinora_outcome&)> ended;
};

// Throws kinora::Error if the run itself fails; failures of samples are counted.
PipelineResult run_pipeline(JobContext&, const PipelineJob&);

// Whether the job's engine can be made, and runs these stages as it says: adds what is wrong as problems of the job.
void check_engine(JobCheck& check, const std::vector<const ComponentUse*>& stages);

}  // namespace kinora::core
