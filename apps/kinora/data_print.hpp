// The overview of `kinora data inspect` as text and as JSON.
#pragma once
#include <string>

#include "plugins/jobs/data/inspect.hpp"

namespace kinora {

std::string overview_text(const data::Overview&);
std::string overview_json(const data::Overview&);

}  // namespace kinora
