// Stores kept samples as files KEY.FIELD in the folder data/ of a curate job.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "kinora/sample.hpp"

namespace kinora::core {

using nlohmann::json;

// Why a made sample cannot be stored under this key, with the remedy; empty if it can. A file's name is split at the first
// dot after its folders, and keys are written to JSON.
std::string problem_of_key(std::string_view key);

// Writes the sample's fields except those that refer to its source. Each file appears whole or not at all,
// and if one cannot be written none is left. Returns names below the folder with their sizes. Throws
// kinora::Error.
json store_sample(const std::filesystem::path& folder, const Sample& sample);

// Whether all of these files exist with these sizes.
bool are_stored(const std::filesystem::path& folder, const json& files);

// Removes every other file below the folder, including temporaries of killed processes.
void remove_all_but(const std::filesystem::path& folder, const std::unordered_set<std::string>& names);

}  // namespace kinora::core
