#include "gate.hpp"

#include <algorithm>

namespace kinora::endpoint {
namespace {

constexpr auto kAsk = std::chrono::milliseconds(100);  // longest time until a cancellation is noticed

std::chrono::steady_clock::duration in_clock(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

Gate::Clock::duration Gate::spacing(int64_t amount, int64_t per_minute) {
  return per_minute > 0 ? in_clock(60.0 * static_cast<double>(amount) / static_cast<double>(per_minute))
                        : Clock::duration::zero();
}

void Gate::wait(Lock& lock, Clock::time_point then, const Stop& stop) {
  changed_.wait_until(lock, std::min(then, Clock::now() + kAsk));
  lock.unlock();
  stop();
  lock.lock();
}

Gate::Place Gate::enter(const Stop& stop) {
  Lock lock(mutex_);
  while (inside_ >= limits_.at_once) wait(lock, Clock::time_point::max(), stop);
  ++inside_;
  return Place(*this);
}

int64_t Gate::free() const {
  const Lock lock(mutex_);
  return limits_.at_once - inside_;
}

void Gate::leave() {
  const Lock lock(mutex_);
  --inside_;
  changed_.notify_all();
}

void Gate::start(int64_t tokens, const Stop& stop) {
  Lock lock(mutex_);
  for (;;) {
    const auto now = Clock::now(), then = std::max({next_request_, next_token_, paused_until_});
    if (then <= now) {
      next_request_ = now + spacing(1, limits_.requests_per_minute);
      next_token_ = now + spacing(tokens, limits_.tokens_per_minute);
      return;
    }
    wait(lock, then, stop);
  }
}

void Gate::correct(int64_t more) {
  const Lock lock(mutex_);
  next_token_ += spacing(more, limits_.tokens_per_minute);
  changed_.notify_all();
}

void Gate::pause(double seconds) {
  const Lock lock(mutex_);
  paused_until_ = std::max(paused_until_, Clock::now() + in_clock(seconds));
}

void Gate::sleep(double seconds, const Stop& stop) {
  Lock lock(mutex_);
  const auto then = Clock::now() + in_clock(seconds);
  while (Clock::now() < then) wait(lock, then, stop);
}

}  // namespace kinora::endpoint
