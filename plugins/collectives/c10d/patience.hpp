// One rank's wait for others while a world begins: it ends when its time is over or the run is asked to
// stop, and logs after a moment what it waits for.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "kinora/abi/collective.h"
#include "kinora/run.hpp"

namespace kinora {

class Patience {
 public:
  Patience(std::string collective, const kinora_world& world)
      : who_(std::move(collective)),
        limit_(world.timeout_ms),
        run_(world.struct_size > offsetof(kinora_world, run) ? world.run : nullptr) {}

  // Sleeps briefly and returns whether time is left. Throws Error(KINORA_CANCELLED). what(): "rank 3 at
  // host:1".
  template <class What>
  bool more(What what) {
    if (run_) Run(run_).check_cancelled();
    const auto waited = Clock::now() - begin_;
    if (waited >= limit_) return false;
    if (!said_ && waited >= kMoment) {
      log(Log::info, who_ + ": waiting for " + what() + ", at most " +
                         std::to_string(std::chrono::ceil<std::chrono::seconds>(limit_).count()) + " s");
      said_ = true;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(nap_, limit_ - waited));
    nap_ = std::min(2 * nap_, kLongestNap);
    return true;
  }
  std::chrono::milliseconds limit() const { return limit_; }

 private:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  static constexpr milliseconds kMoment{2000}, kLongestNap{200};
  std::string who_;
  milliseconds limit_, nap_{5};
  const kinora_run* run_;
  Clock::time_point begin_ = Clock::now();
  bool said_ = false;
};

}  // namespace kinora
