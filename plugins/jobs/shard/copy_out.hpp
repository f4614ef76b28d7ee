// Copies a job's results to another storage: `out = "s3://bucket/shards"` of a shard job.
#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Copies every file of the job's folder except its records to below `uri`. Copies the dataset's
// .nv-meta/.info.json last, so that a reader who finds it finds everything it names. A killed run resumes
// with the file it was copying. At the end the storage must list every file with its size. Returns {"uri",
// "files", "bytes"}; throws kinora::Error.
nlohmann::json copy_out(JobContext& context, const std::string& uri);

// Throws Error(KINORA_ERROR_INVALID) if `uri` contains a dataset that neither this job nor the job it
// replaces has copied there.
void refuse_others(JobContext& context, const std::string& uri);

// Reports a problem if the option `out` is not a URI of a known storage.
void check_out(JobCheck& check, const std::string& uri);

}  // namespace kinora::core
