// Adds up the last measured memory of this program's workers, which share a common limit.
#pragma once
#include <cstdint>

#include <sys/types.h>

namespace kinora::core {

// The share of one worker, counted during the lifetime of the object.
class HeldByOne {
 public:
  HeldByOne();
  HeldByOne(const HeldByOne&) = delete;
  HeldByOne& operator=(const HeldByOne&) = delete;
  ~HeldByOne();
  void set(uint64_t bytes, pid_t process = -1);
  // Returns the sum of all shares if it exceeds `limit` and this worker holds the most of those at work, otherwise 0.
  // So exactly one worker that is at work is killed.
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
