// Which failed requests may succeed when they are repeated, and when to repeat them.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "plugins/storage/ranged/http.hpp"

namespace kinora::ranged {

// Whether no server answered at the address.
bool is_nobody(const HttpAnswer& answer);
// Whether the connection failed in a way that may pass, or the server says that it is busy or out of order.
bool may_pass(const HttpAnswer& answer);

// How often and after which pause a request is repeated: pauses double from 0.1 s to 20 s, each drawn
// uniformly between 0 and that ("full jitter"), so that clients that failed together do not return
// together. A server's Retry-After is obeyed up to a minute. No request is repeated once the run was asked to
// stop.
class Tries {
 public:
  explicit Tries(int64_t most) : most_(most) {}
  // Sleeps before another try. Returns false if none is left, or if *stop becomes true.
  bool another(const HttpAnswer& answer, const std::atomic<bool>* stop = nullptr);
  // An answer to a read with answer.got of the requested bytes, but not all: whether to ask for the rest at once. The
  // bytes are progress if they came at kLeastSpeed or faster since the last progress, pauses aside; an answer
  // without progress is changed to one that timed out.
  bool goes_on(HttpAnswer& answer);
  int64_t count() const { return all_; }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t most_, failed_in_a_row_ = 0, all_ = 1;
  Clock::time_point progress_ = Clock::now();
};

}  // namespace kinora::ranged
