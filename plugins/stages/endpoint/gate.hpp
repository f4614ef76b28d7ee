// What may be asked of one account at one server: so many requests at once, so many requests and tokens a
// minute.
#pragma once
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace kinora::endpoint {

// Asked about ten times a second while somebody waits; throws to break the waiting off.
using Stop = std::function<void()>;

struct Limits {
  int64_t at_once = 1;
  int64_t requests_per_minute = 0;  // 0: no bound
  int64_t tokens_per_minute = 0;    // prompt and completion together; 0: no bound
  auto operator<=>(const Limits&) const = default;
};

// Requests start evenly spaced, not in bursts (the generic cell rate algorithm with a burst of one): so no
// minute, wherever it begins, has more of them than the limit, and a server that counts by the second is
// content too. [any-thread]
class Gate {
 public:
  explicit Gate(const Limits& limits) : limits_(limits) {}

  // One of the requests at once; given back when it ends.
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
  // Places that nobody has at the moment.
  int64_t free() const;
  // Waits until a request may start that is expected to take so many tokens.
  void start(int64_t tokens, const Stop& stop);
  // It took `more` tokens than was expected; less is negative.
  void correct(int64_t more);
  // The server asks everybody to wait.
  void pause(double seconds);
  void sleep(double seconds, const Stop& stop);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static Clock::duration spacing(int64_t amount, int64_t per_minute);
  void leave();
  // Until `then`, a change of the gate, or the moment to ask whether to stop.
  void wait(Lock& lock, Clock::time_point then, const Stop& stop);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t inside_ = 0;
  Clock::time_point next_request_{}, next_token_{}, paused_until_{};
};

}  // namespace kinora::endpoint
