// Quantities in text: sizes in bytes as people write them ("2 GiB", "512MiB", "10 MB", "4096"), times, and counts of
// things.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/base/status.hpp"

namespace kinora::core {

// KiB, MiB, GiB, TiB count by 1024; kB (or KB), MB, GB, TB by 1000. Not negative, at most 2^63 - 1.
Result<int64_t> parse_size(std::string_view text);

// "1.50 GiB": for people.
std::string format_size(uint64_t bytes);

// "45 s", "3:20 min", "1:05 h": for people.
std::string duration_text(double seconds);

// "1 clip", "2 clips".
inline std::string counted(int64_t count, const char* one, const char* more) {
  return fmt::format("{} {}", count, count == 1 ? one : more);
}

}  // namespace kinora::core
