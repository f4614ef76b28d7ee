// A job's identity as one digest. Equal identities give equal results, so a finished job need not run again.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "core/run/run_file.hpp"

namespace kinora::core {

// The content of job.json: the job's kind, all its options, its inputs, and its components with their versions.
nlohmann::json spec_json(const JobSpec&);

// SHA-256 over the kind, seed, components, inputs (files by size and modification time, jobs by identity) and the
// options that affect results, including files that options name. How a job runs (threads, log interval) is not
// included. An upstream curate job counts by the samples that it keeps, not by how often its failures were retried.
std::string job_digest(const RunFile&, const JobSpec&);

// The same without the inputs, for kinds of jobs that keep their work (job_type.hpp); empty for other kinds.
std::string job_base(const RunFile&, const JobSpec&);

}  // namespace kinora::core
