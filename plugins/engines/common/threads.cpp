#include "plugins/engines/common/threads.hpp"

#include <chrono>

#include "kinora/error.hpp"

namespace kinora::engines {
namespace {

// This thread has said that it takes a job in a moment.
thread_local bool t_takes_next = false;

}  // namespace

void Threads::post(std::function<void()> work, bool here) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(work));
  if (here && !t_takes_next) {
    t_takes_next = true;
    ++idle_;
    return;
  }
  if (idle_ < jobs_.size()) {
    try {
      threads_.emplace_back([this] { this->work(); });
    } catch (const std::system_error&) {
      // The system provides no more threads. The existing ones take the job when they can.
      if (!threads_.empty()) return;
      jobs_.pop_back();
      throw Error(KINORA_ERROR_NO_MEMORY,
                  "no thread could be started; raise the limit on processes (ulimit -u)");
    }
  }
  posted_.notify_one();
}

void Threads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!std::exchange(t_takes_next, false)) ++idle_;
    posted_.wait(lock, [&] { return quit_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

void Threads::wait(double seconds) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return awake_; });
  awake_ = false;
}

void Threads::wake() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(awake_, true)) return;
  woken_.notify_one();
}

void Threads::join() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  posted_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace kinora::engines
