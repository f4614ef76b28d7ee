// Describes in words how two descriptions of a job differ.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// "steps was 2 and is 4; model.layers was 2 and is 3; and 4 more" for two spec_json(); options that do not affect
// results (decides()) are left out. Empty: no difference. values: the words around both values.
std::string difference(const nlohmann::json& first, const nlohmann::json& second,
                       const char* values = "was {} and is {}");

}  // namespace kinora::core
