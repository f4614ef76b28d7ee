// A job's identity as one digest, and what makes two jobs differ. Equal identities give equal results, so a
// finished job need not run again.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "core/run/run_file.hpp"

namespace kinora::core {

// The content of job.json: the job's kind, all its options, its inputs, and its components with their
// versions.
nlohmann::json spec_json(const JobSpec&);

// SHA-256 over the kind, seed (of a job that draws), components, inputs (files by size and modification time, jobs by identity) and
// the options that affect results, including files that options name. How a job runs (threads, log interval)
// is not included. An upstream curate job counts by the samples that it keeps, not by how often its failures
// were retried.
std::string job_digest(const RunFile&, const JobSpec&);

// The same without the inputs, for kinds of jobs that keep their work (JobType::keeps_work), or without the options by which
// it may grow (JobType::grows_by); empty for other kinds.
std::string job_base(const RunFile&, const JobSpec&);

// How two spec_json() of a job differ: "steps was 2 and is 4; model.layers was 2 and is 3; and 4 more". The
// options that `second` lists as how_only are left out, since they do not affect results. Empty: no
// difference. values: the words around both values.
std::string difference(const nlohmann::json& first, const nlohmann::json& second,
                       const char* values = "was {} and is {}");

}  // namespace kinora::core
