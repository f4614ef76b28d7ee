// A plan in words and as JSON.
#pragma once
#include <nlohmann/json.hpp>

#include "apps/planner/search.hpp"

namespace kinora::core::plan {

std::string heading(const Problem&);
// The table of the best, and why the first is.
std::string text_of(const Found&, const Problem&);
// One layout: its time and memory, and what it would have to be better.
std::string text_of(const Plan&, const Problem&);
// One line: how many GPUs would do.
std::string text_of(const Fewer&);
nlohmann::json json_of(const Plan&, const Problem&);
nlohmann::json json_of(const Fewer&);
nlohmann::json json_of(const Found&, const Problem&);

}  // namespace kinora::core::plan
