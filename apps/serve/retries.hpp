// Recognises what OpenAI's client sends again, without a key, when it got no answer; x-stainless-retry-count counts it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace kinora::serve {

// [any-thread] The newest videos, by the requests that made them.
class Retries {
 public:
  class Attempt;

 private:
  using Clock = std::chrono::steady_clock;
  struct Made {
    std::string request, video;
    Clock::time_point at;
  };
  static constexpr std::chrono::minutes kKept{10};
  static constexpr size_t kMost = 1000;

  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::multiset<std::string> open_;
  std::deque<Made> made_;  // the newest last
};

// A request that is answered while this object lives.
class Retries::Attempt {
 public:
  // request: equal for equal requests. One that is repeated waits for the attempt before it.
  Attempt(Retries& of, std::string request, bool is_repeated) : of_(of), request_(std::move(request)) {
    std::unique_lock lock(of_.mutex_);
    if (is_repeated) {
      of_.changed_.wait(lock, [&] { return !of_.open_.contains(request_); });
      while (!of_.made_.empty() && of_.made_.front().at + kKept < Clock::now()) of_.made_.pop_front();
      for (const auto& one : of_.made_)
        if (one.request == request_) known_ = one.video;
    }
    of_.open_.insert(request_);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    const std::scoped_lock lock(of_.mutex_);
    of_.open_.erase(of_.open_.find(request_));
    of_.changed_.notify_all();
  }
  // The video of the attempt before it; "": there is none.
  const std::string& known() const { return known_; }
  void made(const std::string& video) {
    const std::scoped_lock lock(of_.mutex_);
    of_.made_.push_back({request_, video, Clock::now()});
    if (of_.made_.size() > kMost) of_.made_.pop_front();
  }

 private:
  Retries& of_;
  const std::string request_;
  std::string known_;
};

}  // namespace kinora::serve
