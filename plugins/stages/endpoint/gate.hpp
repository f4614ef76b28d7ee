// Limits for one account on one server: requests at once, and requests and tokens per minute.
#pragma once
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace kinora::endpoint {

// Called about ten times per second during a wait; throws to end the wait.
using Stop = std::function<void()>;

struct Limits {
  int64_t at_once = 1;
  int64_t requests_per_minute = 0;  // 0: no limit
  int64_t tokens_per_minute = 0;    // prompt and completion together; 0: no limit
  auto operator<=>(const Limits&) const = default;
};

// Spaces requests evenly, without bursts (the generic cell rate algorithm with a burst of one). So no minute,
// wherever it begins, has more requests than the limit, and servers that count per second accept them too.
// [any-thread]
class Gate {
 public:
  explicit Gate(const Limits& limits) : limits_(limits) {}

  // One of the concurrent requests; the destructor returns the place.
  class Place {
   public:
    explicit Place(Gate& gate) : gate_(&gate) {}
    Place(Place&& o) noexcept : gate_(std::exchange(o.gate_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (gate_) gate_->leave();
    }

   private:
    Gate* gate_;
  };
  Place enter(const Stop& stop);
  // Number of places that are free at the moment.
  int64_t free() const;
  // Waits until a request that is expected to take this many tokens may start.
  void start(int64_t tokens, const Stop& stop);
  // Corrects the estimate: the request took `more` tokens than expected; negative if fewer.
  void correct(int64_t more);
  // Delays all requests, as the server demands.
  void pause(double seconds);
  void sleep(double seconds, const Stop& stop);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static Clock::duration spacing(int64_t amount, int64_t per_minute);
  void leave();
  // Waits until `then`, a change of the gate, or the next call of `stop`.
  void wait(Lock& lock, Clock::time_point then, const Stop& stop);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t inside_ = 0;
  Clock::time_point next_request_{}, next_token_{}, paused_until_{};
};

}  // namespace kinora::endpoint
