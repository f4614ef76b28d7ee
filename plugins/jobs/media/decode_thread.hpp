// A thread that handles the chunks of a video, in order, while the next ones are made.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "kinora/error.hpp"

namespace kinora::core::inference {

// The queue is bounded, so that the producer is at most `most` waiting chunks and the handled one ahead.
//
// The first exception of the handler ends the thread's work: waiting chunks are dropped, and each later push() and
// finish() throws it. The handler runs on a thread of its own: what is set for a thread, such as at::NoGradGuard and
// the CUDA stream, it must set itself.
template <class Chunk>
class DecodeThread {
 public:
  static constexpr size_t kMost = 2;
  using Handler = std::function<void(Chunk)>;

  explicit DecodeThread(Handler handler, size_t most = kMost)
      : handler_(std::move(handler)), most_(most), thread_([this] { work(); }) {}
  DecodeThread(const DecodeThread&) = delete;
  DecodeThread& operator=(const DecodeThread&) = delete;
  // Cancels, and waits for the handler's current call.
  ~DecodeThread() {
    cancel();
    if (thread_.joinable()) thread_.join();
  }

  // [owner-thread] Waits until fewer than `most` chunks wait. Throws the handler's exception; Error(
  // KINORA_ERROR_CANCELLED) after cancel(); Error(KINORA_ERROR_INVALID) after finish().
  void push(Chunk chunk) {
    std::unique_lock lock(mutex_);
    throw_if_over();
    if (is_closed_) throw Error(KINORA_ERROR_INVALID, "a chunk behind the end of its video");
    changed_.wait(lock, [&] { return waiting_.size() < most_ || is_over(); });
    throw_if_over();
    waiting_.push_back(std::move(chunk));
    lock.unlock();
    changed_.notify_all();
  }

  // [owner-thread] Waits until every chunk is handled. Throws as push(). May be called again.
  void finish() {
    {
      const std::scoped_lock lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    const std::scoped_lock lock(mutex_);
    throw_if_over();
  }

  // [any-thread] Drops the waiting chunks and wakes a waiting push(). The handler's current call continues: one that
  // waits for something else must look at is_cancelled().
  void cancel() {
    {
      const std::scoped_lock lock(mutex_);
      is_cancelled_ = true;
    }
    changed_.notify_all();
  }
  // [any-thread]
  bool is_cancelled() const {
    const std::scoped_lock lock(mutex_);
    return is_cancelled_;
  }

 private:
  bool is_over() const { return is_cancelled_ || failure_; }
  void throw_if_over() const {
    if (failure_) std::rethrow_exception(failure_);
    if (is_cancelled_) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !waiting_.empty() || is_closed_ || is_cancelled_; });
      if (is_cancelled_ || waiting_.empty()) break;
      {
        Chunk chunk = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        changed_.notify_all();
        const std::exception_ptr failure = handled(std::move(chunk));
        lock.lock();
        failure_ = failure;
      }
      if (failure_) break;
    }
    waiting_.clear();
    lock.unlock();
    changed_.notify_all();
  }

  std::exception_ptr handled(Chunk chunk) {
    try {
      handler_(std::move(chunk));
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  const Handler handler_;
  const size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Chunk> waiting_;
  std::exception_ptr failure_;
  bool is_closed_ = false, is_cancelled_ = false;
  std::thread thread_;  // last, because it uses the others
};

}  // namespace kinora::core::inference
