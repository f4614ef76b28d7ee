// The clips of a curate job: files KEY.FIELD in its folder data.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace kinora::core {

// Field -> file of one clip.
using ClipFields = std::map<std::string, std::filesystem::path>;

// Clips by key, in order; a key with slashes is in subfolders. Hidden files are temporaries of killed
// processes and are skipped.
// Throws Error(KINORA_IO) if the folder cannot be read.
std::map<std::string, ClipFields> clips_in(const std::filesystem::path& data);

}  // namespace kinora::core
