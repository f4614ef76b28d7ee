// What a process holds that nobody can take from it: memory of its own, and shared memory that it has made.
#pragma once
#include <cstdint>
#include <set>

#include <sys/types.h>

namespace kinora::core {

// Bytes; 0 if it cannot be told. Files that it maps do not count, for the system drops them when it needs
// room, nor does the shared memory `given` to it (numbers of inodes).
uint64_t held_memory(pid_t pid, const std::set<ino_t>& given);

// The same of a process group, its leader among them. 0 where nobody is beside the leader. What one has of the other since it was
// forked counts once where that decides whether they hold more than `limit`, for to see it takes long; else twice.
// Who belongs to the group is looked up ten times a second at most, for all groups at once.
uint64_t held_memory_of_group(pid_t leader, const std::set<ino_t>& given, uint64_t limit);

}  // namespace kinora::core
