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

namespace kinora::core {

// Outcome counts of samples of one kind.
struct Counts {
  int64_t kept = 0, filtered = 0, failed = 0;
  int64_t sum() const { return kept + filtered + failed; }
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
  std::string unit = "items";
  // The next input, or nothing at the end.
  std::function<std::optional<Sample>()> next;
  int64_t made_before = 0;  // samples that earlier runs had made
  // [any-thread] Inputs of the total that ended before any stage, or in an earlier run; empty: none.
  std::function<int64_t()> ended_before_stages;
  // [any-thread] What stages have requested from servers in this run, as in Usage; empty: not counted.
  std::function<nlohmann::json()> usage;
  // What the log calls a failed sample; empty: its key.
  std::function<std::string(const Sample&)> called;
  // [any-thread] Whether an earlier run recorded this outcome and made_before counts it; empty: never.
  std::function<bool(const Sample&, const kinora_outcome&)> ended_before;
  // Receives every outcome before it is counted; stores kept samples.
  std::function<void(const Sample&, const kinora_outcome&)> ended;
};

// Throws kinora::Error if the run itself fails; failures of samples are counted.
PipelineResult run_pipeline(JobContext&, const PipelineJob&);

// Publishes what a job is doing now, from the figures that its engine reports: a table on the terminal, and
// two files in the job's folder, each replaced atomically: live.json for pages, and metrics.prom in
// Prometheus' text format for collectors.
class Live {
 public:
  Live(std::string job, std::filesystem::path folder, int64_t total)
      : job_(std::move(job)), folder_(std::move(folder)), total_(total) {}

  // figures: as in abi/engine.h, perhaps with "usage" (plugins/jobs/curation/usage.hpp). done: inputs that
  // have ended; made: samples made from them that have ended; both include earlier runs. A file that cannot
  // be written is logged once, and the job continues.
  void update(nlohmann::json figures, int64_t done, int64_t made);
  // The job has ended. how: "done", "failed" or "interrupted".
  void end(const std::string& how);
  // For a training, instead: writes only metrics.prom. line: of metrics.jsonl. loading: what the loading of data has
  // done so far (TrainingSamples::loading()); null: nothing is loaded.
  void update_training(const nlohmann::json& line, const nlohmann::json& loading);
  // The last update as lines of a table; empty before the first.
  std::vector<std::string> table() const;

 private:
  void write_all();
  void write(const char* name, const std::string& text);
  const std::string job_;
  const std::filesystem::path folder_;
  const int64_t total_;
  nlohmann::json figures_;
  bool said_ = false;
};

// The figures of live.json in Prometheus' text exposition format 0.0.4.
std::string prometheus_text(const std::string& job, const nlohmann::json& live);
// The figures of Live::update_training() in the same format. steps: of the whole training.
std::string training_text(const std::string& job, int64_t steps, const nlohmann::json& line,
                          const nlohmann::json& loading, double updated);
// Table of stage, workers, rate, queue and busy; the stage that limits the run is marked.
std::vector<std::string> live_table(const nlohmann::json& live);

}  // namespace kinora::core
