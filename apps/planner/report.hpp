// Formats a plan as text and as JSON.
#pragma once
#include <nlohmann/json.hpp>

#include "apps/planner/search.hpp"

namespace kinora::core::plan {

std::string heading(const Problem&);
// A table of the best plans, and the reasons for the first.
std::string text_of(const Found&, const Problem&);
// One layout: its time and memory, and the recomputation that it lacks to fit.
std::string text_of(const Plan&, const Problem&);
// One line: how many GPUs would suffice.
std::string text_of(const Fewer&);
nlohmann::json json_of(const Plan&, const Problem&);
nlohmann::json json_of(const Fewer&);
nlohmann::json json_of(const Found&, const Problem&);

}  // namespace kinora::core::plan
