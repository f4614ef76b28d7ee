#include "core/workers/held_memory.hpp"

#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <unistd.h>

#include <sys/stat.h>

#include "core/workers/channel.hpp"

namespace kinora::core {
namespace {

uint64_t private_memory(const char* process) {
  char name[64], text[128] = {};
  std::snprintf(name, sizeof name, "%s/statm", process);
  const Descriptor file(::open(name, O_RDONLY | O_CLOEXEC));
  unsigned long long all = 0, resident = 0, shared = 0;
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0 ||
      std::sscanf(text, "%llu %llu %llu", &all, &resident, &shared) != 3 || shared > resident)
    return 0;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return (resident - shared) * page;
}

// Of the memory behind its descriptors (memfd_create), written or mapped.
uint64_t shared_memory(const char* process, const std::set<ino_t>& given) {
  char name[64];
  std::snprintf(name, sizeof name, "%s/fd", process);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(name), ::closedir);
  std::set<ino_t> seen = given;
  uint64_t bytes = 0;
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    char target[32];
    const ssize_t n = ::readlinkat(::dirfd(folder.get()), entry->d_name, target, sizeof target);
    if (n <= 0 || !std::string_view(target, static_cast<size_t>(n)).starts_with("/memfd:")) continue;
    struct stat s {};
    if (::fstatat(::dirfd(folder.get()), entry->d_name, &s, 0) == 0 && seen.insert(s.st_ino).second)
      bytes += static_cast<uint64_t>(s.st_blocks) * 512;
  }
  return bytes;
}

}  // namespace

uint64_t held_memory(pid_t pid, const std::set<ino_t>& given) {
  char process[32];
  std::snprintf(process, sizeof process, "/proc/%d", static_cast<int>(pid));
  return private_memory(process) + shared_memory(process, given);
}

}  // namespace kinora::core
