// What a job is, as one number: equal identities make equal results, so what is finished is not done again.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "core/run/run_file.hpp"

namespace kinora::core {

// What job.json says: the job's kind, options (and those that do not decide results), inputs and components with their
// versions.
nlohmann::json spec_json(const JobSpec&);

// SHA-256 over the kind, seed, components, inputs (their files by size and time of change, their jobs by
// identity) and the options that decide results, files that options name among them. How a job runs (threads,
// how often it logs) is no part. Of a curate job that it reads, what that keeps counts, and not how often its
// failures were tried again.
std::string job_digest(const RunFile&, const JobSpec&);

// The same without the inputs, of a kind of job that keeps its work (job_type.hpp); empty of any other kind.
std::string job_base(const RunFile&, const JobSpec&);

}  // namespace kinora::core
