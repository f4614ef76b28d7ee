// The memory that workers hold and that cannot be reclaimed: private memory, and shared memory that they
// created.
#pragma once
#include <cstdint>
#include <set>

#include <sys/types.h>

namespace kinora::core {

// Memory held by one process, in bytes; 0 if unknown. Excludes files that it maps, which the system drops
// when it needs room, and the shared memory `given` to it (inode numbers).
uint64_t held_memory(pid_t pid, const std::set<ino_t>& given);

// The same for a process group, including its leader; 0 if the leader is alone. Pages shared since a fork
// count twice, or once if that decides whether the group holds more than `limit`, since telling takes long.
// Group members are looked up at most ten times per second, for all groups at once.
uint64_t held_memory_of_group(pid_t leader, const std::set<ino_t>& given, uint64_t limit);

// The last measured memory of one worker. It counts towards the limit that all workers of this program share
// during the lifetime of the object. [any-thread]
class HeldByOne {
 public:
  HeldByOne();
  HeldByOne(const HeldByOne&) = delete;
  HeldByOne& operator=(const HeldByOne&) = delete;
  ~HeldByOne();
  void set(uint64_t bytes, pid_t process = -1);
  // Returns the sum of all shares if it exceeds `limit` and this worker holds the most of those at work,
  // otherwise 0. So exactly one worker that is at work is killed.
  uint64_t sum_above(uint64_t limit) const;

  // A worker is at work while it has a sample; only then is it watched, and can be killed at the cost of one
  // sample.
  class AtWork {
   public:
    AtWork(HeldByOne& of, bool is_at_work);
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;
    ~AtWork();

   private:
    HeldByOne& of_;
  };

 private:
  uint64_t bytes_ = 0;
  pid_t process_ = -1;
  bool at_work_ = false;
};

}  // namespace kinora::core
