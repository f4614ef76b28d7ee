// Lets threads take turns with something that one of them may use at a time, in the order in which they came.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace kinora::core::inference {

// [any-thread] Used as a std::mutex, which does not keep the order: a thread that lets go and comes again at
// once would mostly get it again.
class Turns {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const uint64_t mine = next_++;
    changed_.wait(lock, [&] { return current_ == mine; });
    holder_ = std::this_thread::get_id();
  }
  void unlock() {
    {
      const std::scoped_lock lock(mutex_);
      holder_ = std::thread::id();
      ++current_;
    }
    changed_.notify_all();
  }
  // Threads in lock() that do not have their turn yet.
  uint64_t waiting() const {
    const std::scoped_lock lock(mutex_);
    return next_ == current_ ? 0 : next_ - current_ - 1;
  }
  // Throws std::logic_error unless the calling thread has its turn.
  void require_mine() const {
    if (holder_ != std::this_thread::get_id())
      throw std::logic_error(
          "a network of a pipeline is used without a turn; lock Pipeline::turns(), or coding_turns(), around "
          "it");
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, current_ = 0;
  std::atomic<std::thread::id> holder_;
};

}  // namespace kinora::core::inference
