// Adds up the memory of this program's workers, as last seen: together they may hold no more than a bound.
#pragma once
#include <cstdint>

#include <sys/types.h>

namespace kinora::core {

// The share of one worker, counted as long as the object lives.
class HeldByOne {
 public:
  HeldByOne();
  HeldByOne(const HeldByOne&) = delete;
  HeldByOne& operator=(const HeldByOne&) = delete;
  ~HeldByOne();
  void set(uint64_t bytes, pid_t process = -1);
  // Returns the sum of all shares if it exceeds `limit` and this worker holds the most of those at work, otherwise 0.
  // So exactly one of those at work is ended.
  uint64_t sum_above(uint64_t limit) const;

  // A worker is at work while it has a sample; only then does anybody watch it, and can end it at the cost of
  // one sample.
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
