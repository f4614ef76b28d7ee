// Measures the memory that a process holds and that cannot be reclaimed: its private memory, and shared
// memory that it created.
#pragma once
#include <cstdint>
#include <set>

#include <sys/types.h>

namespace kinora::core {

// Bytes; 0 if unknown. Excludes files that it maps, which the system drops when it needs room, and the shared
// memory `given` to it (inode numbers).
uint64_t held_memory(pid_t pid, const std::set<ino_t>& given);

// The same for a process group, including its leader; 0 if the leader is alone. Pages shared since a fork count twice, or once if
// that decides whether the group holds more than `limit`, since telling takes long. Group members are looked up at most ten times
// per second, for all groups at once.
uint64_t held_memory_of_group(pid_t leader, const std::set<ino_t>& given, uint64_t limit);

}  // namespace kinora::core
