// What a job is doing just now, from the figures that its engine reports: a table on the terminal, and two files in the job's
// folder, each replaced as a whole: live.json for pages, metrics.prom in Prometheus' text format for whoever collects it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

class Live {
 public:
  Live(std::string job, std::filesystem::path folder, int64_t total)
      : job_(std::move(job)), folder_(std::move(folder)), total_(total) {}

  // figures: as abi/engine.h has them, perhaps with "usage" (plugins/jobs/curation/usage.hpp); done: inputs that have ended;
  // made: what stages made of them that has ended, both in earlier runs too.
  // A file that cannot be written is said once in the log, and the job goes on.
  void update(nlohmann::json figures, int64_t done, int64_t made);
  // Nothing is at work any more. how: "done", "failed" or "interrupted".
  void end(const std::string& how);
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
// stage, workers, rate, queue, busy; the stage that bounds the run is marked.
std::vector<std::string> live_table(const nlohmann::json& live);

}  // namespace kinora::core
