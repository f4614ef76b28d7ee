// The description of a job in job.json, and the differences of two, in words.
#pragma once
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "core/run/run_file.hpp"

namespace kinora::core {

// The job's kind, all its options, its inputs, and its components with the versions of their plugins.
nlohmann::json spec_json(const JobSpec&);

// How two spec_json() of a job differ: "steps was 2 and is 4; model.layers was 2 and is 3; and 4 more". The
// options that `second` lists as how_only are left out, since they do not affect results. Empty: no
// difference. values: the words around both values.
std::string difference(const nlohmann::json& first, const nlohmann::json& second,
                       const char* values = "was {} and is {}");

// The name of the next component of a slot in its messages and in "contents": "stages", then "stages 2".
std::string place_name(const std::string& slot, std::map<std::string, int>& seen);

}  // namespace kinora::core
