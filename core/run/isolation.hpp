// Decides which stages of a job may run in separate processes, by the option `isolate` of its engine.
#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Whether `isolate` has "auto", "all" or the stage's name. False if the engine has no such option, this program
// starts no workers, or the job has no engine.
bool may_run_apart(const JobSpec&, const ComponentUse& stage);

// Problems of `isolate` for a job with these stages: unknown names, and words that contradict each other.
std::vector<std::string> isolation_problems(const JobSpec&, const std::vector<const ComponentUse*>& stages);
// Adds them as problems of the job, at the engine's place in the file.
void check_isolated(JobCheck&, const std::vector<const ComponentUse*>& stages);

}  // namespace kinora::core
