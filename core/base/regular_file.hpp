// Files of a folder that a stranger may have made: what is called a file there may be a pipe, which never ends a read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include <sys/types.h>

#include "core/base/status.hpp"

namespace kinora::core {

// A descriptor to read from, which the caller closes. Pipes, sockets, devices and folders are refused without
// blocking.
Result<int> open_regular_file(const std::filesystem::path& path);
// All bytes of a small file of this machine; fails if it is larger than `limit`.
Result<std::string> read_regular_file(const std::filesystem::path& path, uint64_t limit = uint64_t{64} << 20);
// The failure for a path that leads to something of this mode (stat.st_mode).
Failure no_regular_file(const std::filesystem::path& path, mode_t mode);

}  // namespace kinora::core
