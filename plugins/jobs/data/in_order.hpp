// Work on many shards at once whose results come shard by shard, in their order, with bounded memory.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace kinora::data {

// Calls produce(shard, push) for the shards 0, 1, ... on `threads` threads, and consume(shard, piece) in the
// calling thread with all pieces of shard 0, then of shard 1, and so on. push() waits while too many pieces do;
// it returns false when the work was stopped, and produce() should return then. An exception of produce() is thrown
// here, after the pieces of earlier shards were consumed.
template <class Piece>
class InOrder {
 public:
  using Push = std::function<bool(Piece)>;
  InOrder(size_t shards, size_t threads) : threads_(threads), jobs_(shards) {}

  void run(const std::function<void(size_t, const Push&)>& produce,
           const std::function<void(size_t, Piece)>& consume) {
    std::vector<std::jthread> workers;
    const Stop stop{*this};  // before the threads are joined
    for (size_t i = 0; i < std::min(threads_, jobs_.size()); ++i)
      workers.emplace_back([&] { work(produce); });
    for (size_t shard = 0; shard < jobs_.size(); ++shard) {
      while (auto piece = next(shard)) consume(shard, *std::move(piece));
    }
    stop_all();
  }

 private:
  struct Job {
    std::deque<Piece> pieces;
    bool is_done = false;
    std::exception_ptr error;
  };
  struct Stop {
    InOrder& self;
    ~Stop() { self.stop_all(); }
  };
  static constexpr size_t kPiecesPerThread = 4;

  void work(const std::function<void(size_t, const Push&)>& produce) {
    for (;;) {
      size_t shard = 0;
      {
        const std::scoped_lock lock(mutex_);
        if (is_stopped_ || next_ == jobs_.size()) return;
        shard = next_++;
      }
      std::exception_ptr error;
      try {
        produce(shard, [&](Piece piece) { return push(shard, std::move(piece)); });
      } catch (...) {
        error = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      jobs_[shard].is_done = true;
      jobs_[shard].error = error;
      changed_.notify_all();
    }
  }

  // The shard that is consumed may always have a few pieces; those of later shards share what is left.
  bool push(size_t shard, Piece piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return is_stopped_ || (shard == current_ ? jobs_[shard].pieces.size() < kPiecesPerThread
                                               : waiting_ < kPiecesPerThread * threads_);
    });
    if (is_stopped_) return false;
    jobs_[shard].pieces.push_back(std::move(piece));
    ++waiting_;
    changed_.notify_all();
    return true;
  }

  std::optional<Piece> next(size_t shard) {
    std::unique_lock lock(mutex_);
    if (current_ != shard) {
      current_ = shard;
      changed_.notify_all();
    }
    Job& job = jobs_[shard];
    changed_.wait(lock, [&] { return !job.pieces.empty() || job.is_done; });
    if (job.pieces.empty()) {
      if (job.error) std::rethrow_exception(job.error);
      return std::nullopt;
    }
    Piece piece = std::move(job.pieces.front());
    job.pieces.pop_front();
    --waiting_;
    changed_.notify_all();
    return piece;
  }

  void stop_all() {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }

  const size_t threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  size_t next_ = 0, current_ = 0, waiting_ = 0;
  bool is_stopped_ = false;
};

}  // namespace kinora::data
