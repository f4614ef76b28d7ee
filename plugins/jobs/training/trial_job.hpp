// A train job that is never run: what a trial's strategies, precision and model are read and made from.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/run/job.hpp"

namespace kinora::core {

class TrialJob {
 public:
  // lines: of a run file's train job. Throws Error(KINORA_INVALID) with everything that is wrong in them.
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
