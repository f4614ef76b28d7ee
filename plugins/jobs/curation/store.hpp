// Stores kept samples as files KEY.FIELD in the folder data/ of a curate job.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

// Whether the file exists below the folder with this size.
bool is_stored(const std::filesystem::path& folder, const std::string& name, int64_t size);

// Removes these files; names that lead out of the folder are left alone.
void remove_stored(const std::filesystem::path& folder, const std::vector<std::string>& names);

// Removes the files below the folder that are not known, such as temporaries of killed processes. Names are relative to it.
void remove_unless(const std::filesystem::path& folder, const std::function<bool(const std::string& name)>& is_known);

}  // namespace kinora::core
