// What differs between two descriptions of a job, in words.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// "steps was 2 and is 4; model.layers was 2 and is 3; and 4 more": of two spec_json(), options that decide
// nothing (decides()) left out. Empty: none differ. values: the words around the first's and the second's.
std::string difference(const nlohmann::json& first, const nlohmann::json& second,
                       const char* values = "was {} and is {}");

}  // namespace kinora::core
