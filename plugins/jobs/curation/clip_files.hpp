// The clips of a curate job: files KEY.FIELD in its folder data.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace kinora::core {

// Field -> file, of one clip.
using ClipFields = std::map<std::string, std::filesystem::path>;

// By key, in order; one with slashes is in folders. Hidden files are temporaries of a process that was killed.
// Error(KINORA_IO) if the folder cannot be read.
std::map<std::string, ClipFields> clips_in(const std::filesystem::path& data);

}  // namespace kinora::core
