// The figures of a running job, for people and collectors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// Publishes what a job is doing now, from the figures that its engine reports, in two files in the job's folder, each
// replaced atomically: live.json for pages, and metrics.prom in Prometheus' text format for collectors.
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
  // done so far (TrainingTask::loading()); null: nothing is loaded.
  void update_training(const nlohmann::json& line, const nlohmann::json& loading);

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

}  // namespace kinora::core
