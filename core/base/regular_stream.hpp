// A file as a stream, for what is too large to be read at once by read_regular_file().
#pragma once
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "core/base/regular_file.hpp"

namespace kinora::core {

// Fails as open_regular_file() does: a pipe, socket or device is refused without blocking.
inline Result<std::ifstream> regular_stream(const std::filesystem::path& path) {
  const auto descriptor = open_regular_file(path);
  if (!descriptor) return descriptor.failure();
  std::ifstream in(path, std::ios::binary);
  ::close(*descriptor);
  return in;
}

}  // namespace kinora::core
