// What people changed in the studio is an input of the jobs that follow it.
#pragma once
#include "core/run/run_file.hpp"

namespace kinora::core {

// Of the edits of the curate job that `job` reads, as far as its kind follows them: all of them for shard,
// captions for embed-text. "" for other kinds, and if there are none; the same whenever the edits come to the
// same.
std::string edits_identity(const RunFile&, const JobSpec& job);

}  // namespace kinora::core
