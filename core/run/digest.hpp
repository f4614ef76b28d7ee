// SHA-256, as the identity of a job's options and inputs.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace kinora::core {

// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

// Identity of a file or folder without reading it: relative names, sizes and times of change, in order.
std::string stat_digest(const std::filesystem::path&);

}  // namespace kinora::core
