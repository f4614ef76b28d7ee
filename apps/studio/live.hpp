// The progress that a running job reports.
#pragma once
#include <nlohmann/json.hpp>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// {"job", "done", "age_s": seconds since it was written, "figures": live.json unchanged, "summary": summary.json
// unchanged, "failure": why its last run failed, or "", "usage": requests of its stages to servers so far, by
// stage}. null if the folder has neither file, or both are unreadable. usage: of the job's items so far, for a job
// that has no summary yet.
nlohmann::json live_of(const JobFolder&, const nlohmann::json& usage);

}  // namespace kinora::studio
