// What a running job says of itself.
#pragma once
#include <nlohmann/json.hpp>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// {"job", "done", "age_s": since it was written, "figures": live.json as it is, "summary": summary.json as it
// is, "failure": why its last run failed, or "", "usage": what its stages have asked of servers by now, by
// stage}. null if the folder has neither file, or both are unreadable. usage: of its items so far, for a job
// that has no summary yet.
nlohmann::json live_of(const JobFolder&, const nlohmann::json& usage);

}  // namespace kinora::studio
