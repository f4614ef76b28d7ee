// Runs the jobs of a run file in order; what is finished and unchanged is not done again.
#pragma once
#include <functional>
#include <string>

#include "core/run/job.hpp"

namespace kinora::core {

struct RunOptions {
  std::string only;             // just this job, and what it needs
  bool dry = false;             // say what would be done
  bool keeps_finished = false;  // an error instead of doing a finished job again with other options
  bool is_trial = false;        // if `only` ends without any result, its folder goes
};

struct RunResult {
  bool ok = false, was_cancelled = false;
};

// The code of a job kind. `torch` kinds come from libkinora_torch, opened when the first of them runs.
using JobFunction = void (*)(JobContext&);
JobFunction job_function(const JobKind&);

RunResult run_jobs(Runtime&, const RunFile&, const RunOptions&);

}  // namespace kinora::core
