// The files of a curate job's clips: KEY.FIELD in its folder data.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/sample.hpp"

namespace kinora::core {

// Field -> file of one clip.
using ClipFields = std::map<std::string, std::filesystem::path>;

// Clips by key, in order; a key with slashes is in subfolders. Hidden files are temporaries of killed
// processes and are skipped.
// Throws Error(KINORA_ERROR_IO) if the folder cannot be read.
std::map<std::string, ClipFields> clips_in(const std::filesystem::path& data);

using nlohmann::json;

// Why a made sample cannot be stored under this key, with the remedy; empty if it can. A file's name is split
// at the first dot after its folders, and keys are written to JSON.
std::string problem_of_key(std::string_view key);

// Writes the sample's fields except those that refer to its source. Each file appears whole or not at all,
// and if one cannot be written none is left. Returns names below the folder with their sizes. Their
// bytes are flushed, the names are not: the next run makes a sample again if a power cut took a name. Throws
// kinora::Error.
json store_sample(const std::filesystem::path& folder, const Sample& sample);

// Whether this name, which a stranger may have written, is one of a file below its folder.
bool is_inside(const std::filesystem::path& name);

// Whether the file exists below the folder with this size.
bool is_stored(const std::filesystem::path& folder, const std::string& name, int64_t size);

// Removes these files; names that lead out of the folder are left alone.
void remove_stored(const std::filesystem::path& folder, const std::vector<std::string>& names);

// Removes the files below the folder that are not known, such as temporaries of killed processes. Names are
// relative to it.
void remove_unless(const std::filesystem::path& folder,
                   const std::function<bool(const std::string& name)>& is_known);

// Where the files of a clip belong by its shape and length, in the folders of Cosmos-Curate's shards:
// resolution_720/aspect_ratio_16_9/duration_5_10. From the fact `bin` (resolution, aspect, duration) that
// clip.transcode leaves, or from width, height, sample_aspect and duration_s by kinora/bins.hpp. Cosmos drops
// what has no bin: here a clip below 5 s is duration_0_5, one wider than 10 to 1 aspect_ratio_other. Empty if
// the facts do not say. A picture (fact `picture`) belongs to resolution_720/aspect_ratio_16_9/picture.
std::string bin_of(const nlohmann::json& facts);

}  // namespace kinora::core
