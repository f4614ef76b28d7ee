// Makes people's changes in the studio an input of the jobs that depend on them.
#pragma once
#include <functional>

#include "core/run/run_file.hpp"
#include "plugins/jobs/curation/edit_history.hpp"

namespace kinora::core {

// Identity of the edits of the curate job that `job` reads. followed: the part of a clip's edit that the job depends on;
// null: nothing. "" if there are no such edits; equal whenever the edits have the same effect.
std::string edits_identity(const RunFile&, const JobSpec& job, const std::function<json(const Edited&)>& followed);

}  // namespace kinora::core
