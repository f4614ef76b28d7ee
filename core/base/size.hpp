// Sizes in bytes as people write them: "2 GiB", "512MiB", "10 MB", "1.5 GiB", "4096".
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

// KiB, MiB, GiB, TiB count by 1024; kB (or KB), MB, GB, TB by 1000. Not negative, at most 2^63 - 1.
Result<int64_t> parse_size(std::string_view text);

// "1.50 GiB": for people.
std::string format_size(uint64_t bytes);

}  // namespace kinora::core
