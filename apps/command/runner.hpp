// Runs the jobs of a run file in order, except those that are finished and unchanged.
#pragma once
#include <filesystem>
#include <string>

#include "core/run/run_file.hpp"
#include "core/runtime/place.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {

struct RunOptions {
  std::string only;             // only this job and its dependencies
  bool dry = false;             // only log what would be done
  bool keeps_finished = false;  // fail instead of rerunning a finished job with other options
  bool needs_finished = false;  // fail instead of running a job that `only` depends on
  bool retry_failed = false;    // retry the failures of finished curate jobs
  bool from_scratch = false;    // begin again: `only`, even if it is finished, or every job that runs
  bool replaces = false;  // replace results of other run files and inputs, and those with people's edits
  bool is_trial = false;  // delete the folder of `only` if it ends without a result
};

struct RunResult {
  bool ok = false, was_cancelled = false;
  bool was_refused = false;   // the run file has errors; nothing ran
  bool is_elsewhere = false;  // the results are in another process's output folder
};

// A run as this process takes part in it.
struct Launch {
  core::Runtime& runtime;
  const core::RunFile& run;
  const RunOptions& options;
  core::LaunchPlace place;
  std::filesystem::file_time_type since;  // its start
};

// Logs why a run ends here; returns its result.
RunResult run_failed(const std::string& why, bool was_refused = false);

// Whether the jobs that these options select can run in a launch of `ranks` ranks; problems are logged.
bool may_begin(core::Runtime&, const core::RunFile&, const RunOptions&, int64_t ranks);

RunResult run_jobs(core::Runtime&, const core::RunFile&, const RunOptions&);
// Whether other processes may run the same file in the same folder at the same time (option `lease` of a job).
bool is_shared(const core::RunFile&, const RunOptions&);

}  // namespace kinora
