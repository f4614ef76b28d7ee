// Which stages of a job run in processes of their own, as far as its file says: the option `isolate` of its engine.
#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Whether a stage may: one that "auto" decides about, "all", or its name. False of an engine without such an option, where
// this program starts no workers, and of a job without an engine.
bool may_run_apart(const JobSpec&, const ComponentUse& stage);

// What is wrong with `isolate` where a job has these stages: names of none of them, and words that contradict each other.
std::vector<std::string> isolation_problems(const JobSpec&, const std::vector<const ComponentUse*>& stages);
// The same, as problems of the job at the engine's place in the file.
void check_isolated(JobCheck&, const std::vector<const ComponentUse*>& stages);

}  // namespace kinora::core
