// What a process holds that nobody can take from it: memory of its own, and shared memory that it has made.
#pragma once
#include <cstdint>
#include <set>

#include <sys/types.h>

namespace kinora::core {

// Bytes; 0 if it cannot be told. Files that it maps do not count, for the system drops them when it needs
// room, nor does the shared memory `given` to it (numbers of inodes).
uint64_t held_memory(pid_t pid, const std::set<ino_t>& given);

}  // namespace kinora::core
