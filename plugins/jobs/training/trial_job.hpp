// A train job that is never run: supplies the strategies, precision and model of a trial.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/run/job.hpp"

namespace kinora::core {

class TrialJob {
 public:
  // lines: of a run file's train job. Throws Error(KINORA_INVALID) with all errors in them.
  TrialJob(Runtime&, const std::string& lines);
  TrialJob(const TrialJob&) = delete;
  TrialJob& operator=(const TrialJob&) = delete;
  ~TrialJob();
  JobContext& context() { return *context_; }

 private:
  RunFile run_;
  std::optional<JobContext> context_;
};

}  // namespace kinora::core
