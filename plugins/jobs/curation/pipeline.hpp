// Runs the stages of a job on its engine and keeps the books: every item ends once, and the sums add up.
#pragma once
#include <functional>
#include <map>
#include <optional>

#include "core/run/job.hpp"
#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// What became of the items of one kind.
struct Counts {
  int64_t kept = 0, filtered = 0, failed = 0;
  int64_t sum() const { return kept + filtered + failed; }
  nlohmann::json json() const { return {{"kept", kept}, {"filtered", filtered}, {"failed", failed}}; }
};

struct PipelineResult {
  Counts inputs, made;                  // of the source, and of what stages made of it
  std::map<std::string, int64_t> rules;  // filtered, by rule
  nlohmann::json figures;                // the engine's last report (abi/engine.h)
};

struct PipelineJob {
  std::vector<const ComponentUse*> stages;
  const ComponentUse* engine = nullptr;
  int64_t memory = 0, threads = 0, total = 0;  // total: inputs, for the progress bar
  std::string unit = "items";
  // The next input, or nothing at the end.
  std::function<std::optional<Sample>()> next;
  int64_t made_before = 0;  // ends of what earlier runs had made
  // [any-thread] Inputs of the total that have ended before any stage, or in an earlier run; empty: none.
  std::function<int64_t()> ended_before_stages;
  // [any-thread] What stages have asked of servers in this run, as Usage has it; empty: nobody counts it.
  std::function<nlohmann::json()> usage;
  // What the log calls a sample that failed; empty: by its key.
  std::function<std::string(const Sample&)> called;
  // [any-thread] Whether an earlier run has told this end too, and made_before counts it; empty: never.
  std::function<bool(const Sample&, const kinora_outcome&)> ended_before;
  // Every end, before it is counted; for what is kept, what has to be stored.
  std::function<void(const Sample&, const kinora_outcome&)> ended;
};

// Throws kinora::Error if the run itself fails; failures of items are counted.
PipelineResult run_pipeline(JobContext&, const PipelineJob&);

}  // namespace kinora::core
