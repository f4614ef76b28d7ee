// What a job made, copied to another storage: `out = "s3://bucket/shards"` of a shard job.
#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Copies every file of the job's folder but its records to below `uri`, the dataset's .nv-meta/.info.json last,
// so that who finds it finds all that it names. A run that was killed goes on with the file it was at. In the
// end the storage must list every file with its size. Returns {"uri", "files", "bytes"}; throws kinora::Error.
nlohmann::json copy_out(JobContext& context, const std::string& uri);

// Throws Error(KINORA_INVALID) if a dataset lies there that neither this job nor the one that it replaces has
// copied there.
void refuse_others(JobContext& context, const std::string& uri);

// A problem of the option `out`, if it is one of no storage.
void check_out(JobCheck& check, const std::string& uri);

}  // namespace kinora::core
