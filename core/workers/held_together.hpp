// What each worker of this program holds, as it was seen last: together they may hold no more than a bound.
#pragma once
#include <cstdint>

#include <sys/types.h>

namespace kinora::core {

// Of one worker, as long as the object lives.
class HeldByOne {
 public:
  HeldByOne();
  HeldByOne(const HeldByOne&) = delete;
  HeldByOne& operator=(const HeldByOne&) = delete;
  ~HeldByOne();
  void set(uint64_t bytes, pid_t process = -1);
  // What all hold together, where that is more than `limit` and no other one at work holds more than this
  // one; else 0. So of those at work exactly one hears that it is to end.
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
