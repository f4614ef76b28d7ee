// Checks that create the stages of a job, and the check of all jobs of a run, which does so too.
#pragma once
#include <vector>

#include "core/run/job_check.hpp"
#include "kinora/abi/stage.h"

namespace kinora::core {

// Creates an instance of a job's stage and returns its resources. A stage that may run in a separate process
// is created in one. Throws Error, WorkerDied.
kinora_resources resources_of(const JobView&, const ComponentUse& stage);

// Checks that the stage can be created. A stage that may run in a separate process is created in one, so that a crash
// is a problem too. Throws WorkerDied if the process was killed.
void check_stage(JobCheck&, const ComponentUse& stage);

// Problems of these jobs before any has run, in a launch of `ranks` ranks; 0: of any number. Skips jobs with
// errors in the file, their own or a dependency's.
std::vector<Diagnostic> check_jobs(Runtime&, const RunFile&, const std::vector<bool>& which, int64_t ranks);
std::vector<Diagnostic> check_jobs(Runtime&, const RunFile&, int64_t ranks);

}  // namespace kinora::core
