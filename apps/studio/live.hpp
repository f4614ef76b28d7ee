// What a running job says of itself.
#pragma once
#include <nlohmann/json.hpp>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// {"job", "done", "age_s": since it was written, "figures": live.json as it is, "summary": summary.json as it
// is}. null if the folder has neither, or both are unreadable.
nlohmann::json live_of(const JobFolder&);

}  // namespace kinora::studio
