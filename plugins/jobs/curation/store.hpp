// Kept samples as files KEY.FIELD in the folder data/ of a curate job.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "kinora/sample.hpp"

namespace kinora::core {

using nlohmann::json;

// Why no sample that a stage has made can be stored under this key, with the remedy; empty if one can. A file's name is taken
// apart again at the first dot behind its folders, and keys stand in JSON.
std::string problem_of_key(std::string_view key);

// Writes the sample's fields but those that say where it came from; each appears whole or not at all, and
// where one cannot be written none stays. Names below the folder with their sizes. Throws kinora::Error.
json store_sample(const std::filesystem::path& folder, const Sample& sample);

// Whether all of these files are there and have these sizes.
bool are_stored(const std::filesystem::path& folder, const json& files);

// Removes every other file below the folder, temporaries of killed processes too.
void remove_all_but(const std::filesystem::path& folder, const std::unordered_set<std::string>& names);

}  // namespace kinora::core
