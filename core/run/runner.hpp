// Runs the jobs of a run file in order; what is finished and unchanged is not done again.
#pragma once
#include <string>

#include "core/run/run_file.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {

struct RunOptions {
  std::string only;             // just this job, and what it needs
  bool dry = false;             // say what would be done
  bool keeps_finished = false;  // an error instead of doing a finished job again with other options
  bool retry_failed = false;    // of finished curate jobs, try again what failed
  bool is_trial = false;        // if `only` ends without any result, its folder goes
};

struct RunResult {
  bool ok = false, was_cancelled = false;
  bool was_refused = false;  // the run file asks for what cannot be; nothing was done
};

// Whether nothing is wrong with the jobs that these options leave to do in a launch of so many ranks; what
// is, is logged.
bool may_begin(Runtime&, const RunFile&, const RunOptions&, int64_t ranks);

RunResult run_jobs(Runtime&, const RunFile&, const RunOptions&);

}  // namespace kinora::core
