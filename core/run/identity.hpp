// What a job is, as one number: equal identities make equal results, so what is finished is not done again.
#pragma once
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/run/run_file.hpp"

namespace kinora::core {

// What job.json says: the job's kind, options, inputs and components with their versions.
nlohmann::json spec_json(const JobSpec&);

// SHA-256 over the kind, seed, components, inputs (their files by size and time of change, their jobs by
// identity) and the options that decide results, files that options name among them. How a job runs (threads,
// how often it logs) is no part. Of a curate job that it reads, what that keeps counts, and not how often its
// failures were tried again.
std::string job_digest(const RunFile&, const JobSpec&);

// Whether results depend on a job's option of this name.
bool decides(std::string_view option);

// The same without the inputs, of a kind of job whose finished work on inputs that stay is still good when others come or
// go (curate and embed-text know which are which); empty of any other kind.
std::string job_base(const RunFile&, const JobSpec&);

}  // namespace kinora::core
