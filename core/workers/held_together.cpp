#include "core/workers/held_together.hpp"

#include <mutex>
#include <set>

#include "core/workers/held_memory.hpp"

namespace kinora::core {
namespace {

struct AllHeld {
  std::mutex mutex;  // guards the contents of the objects too
  std::set<const HeldByOne*> of;
};

// Never destroyed: workers are watched until the very end of the process.
AllHeld& all_held() {
  static auto* one = new AllHeld;
  return *one;
}

}  // namespace

HeldByOne::HeldByOne() {
  const std::lock_guard lock(all_held().mutex);
  all_held().of.insert(this);
}

HeldByOne::~HeldByOne() {
  const std::lock_guard lock(all_held().mutex);
  all_held().of.erase(this);
}

void HeldByOne::set(uint64_t bytes, pid_t process) {
  const std::lock_guard lock(all_held().mutex);
  bytes_ = bytes;
  process_ = process;
}

// A worker that waits for its next sample was last measured while it worked, and may have freed memory since:
// it is measured again.
uint64_t HeldByOne::sum_above(uint64_t limit) const {
  const std::lock_guard lock(all_held().mutex);
  uint64_t seen = 0, sum = 0;
  for (const HeldByOne* one : all_held().of) {
    seen += one->bytes_;
    if (one != this && one->at_work_ && std::pair(one->bytes_, one) > std::pair(bytes_, this)) return 0;
  }
  if (!at_work_ || seen <= limit) return 0;
  for (const HeldByOne* one : all_held().of)
    if (one->bytes_ > 0) sum += one->at_work_ ? one->bytes_ : held_memory(one->process_, {});
  return sum > limit ? sum : 0;
}

HeldByOne::AtWork::AtWork(HeldByOne& of, bool is_at_work) : of_(of) {
  const std::lock_guard lock(all_held().mutex);
  of_.at_work_ = is_at_work;
}

HeldByOne::AtWork::~AtWork() {
  const std::lock_guard lock(all_held().mutex);
  of_.at_work_ = false;
}

}  // namespace kinora::core
