// What people changed in the studio is an input of the jobs that follow it.
#pragma once
#include <functional>

#include "core/run/run_file.hpp"
#include "plugins/jobs/curation/edit_history.hpp"

namespace kinora::core {

// Identity of the edits of the curate job that `job` reads. followed: what the job follows of a clip's edit; null: nothing.
// "" if there is nothing to follow; the same whenever the edits come to the same.
std::string edits_identity(const RunFile&, const JobSpec& job, const std::function<json(const Edited&)>& followed);

}  // namespace kinora::core
