// The memory that a process may use: the machine's, or less in a container, whose control group bounds it (cgroups(7)).
#pragma once
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <unistd.h>

namespace kinora {

// Bytes, the least of: the machine's memory (4 GiB if the system does not say it) and the bounds of this process's
// control group and of those above it: memory.max of version 2, memory.limit_in_bytes of version 1. In a container the
// group's path may be that of the outside; then the bound is that of the top of what the container sees.
// root: the folder that has proc and sys.
inline uint64_t memory_of_machine(const std::string& root = "") {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGE_SIZE);
  uint64_t out =
      pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : uint64_t{1} << 32;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line;
       std::getline(groups, line);) {  // number:controllers:path; of version 2 without controllers
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_old = controllers != ",,";
    if (is_old && controllers.find(",memory,") == controllers.npos) continue;
    const std::string place = root + (is_old ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      uint64_t bound = 0;  // also of "max"
      std::ifstream(place + path + (is_old ? "/memory.limit_in_bytes" : "/memory.max")) >> bound;
      if (bound > 0) out = std::min(out, bound);
      if (path.find('/') == path.npos) break;
    }
  }
  return out;
}

}  // namespace kinora
