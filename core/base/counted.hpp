// Counts of things for use in sentences.
#pragma once
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace kinora::core {

// "1 clip", "2 clips".
inline std::string counted(int64_t count, const char* one, const char* more) {
  return fmt::format("{} {}", count, count == 1 ? one : more);
}

}  // namespace kinora::core
