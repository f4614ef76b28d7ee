// Makes items in a thread of its own, before they are asked for.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace kinora::core {

// Wanted: names an item; ordered. [owner-thread] Every item is made by the same thread, so that the numbers
// do not depend on what was asked for ahead.
template <class Wanted, class Item>
class MadeAhead {
 public:
  using Make = std::function<Item(const Wanted&)>;

  // open: called once, in the thread, and waited for; returns what makes an item there. Throws its error.
  explicit MadeAhead(std::function<Make()> open) {
    thread_ = std::thread([this, open = std::move(open)] { work(open); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_open_ || broken_; });
    if (!broken_) return;
    lock.unlock();
    thread_.join();
    std::rethrow_exception(broken_);
  }
  MadeAhead(const MadeAhead&) = delete;
  MadeAhead& operator=(const MadeAhead&) = delete;
  ~MadeAhead() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // Begins to make these items.
  void prepare(const std::vector<Wanted>& wanted) {
    const std::scoped_lock lock(mutex_);
    for (const Wanted& one : wanted)
      if (!made_.contains(one)) wanted_.push_back(one);
    changed_.notify_all();
  }

  // Waits for the item, which is made next if it was not prepared. Throws the error of making it.
  Item get(const Wanted& wanted) {
    std::unique_lock lock(mutex_);
    const bool is_asked = std::find(wanted_.begin(), wanted_.end(), wanted) != wanted_.end();
    const auto begin = std::chrono::steady_clock::now();
    if (!made_.contains(wanted) && !is_asked && making_ != wanted) {
      wanted_.push_front(wanted);
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return made_.contains(wanted) || broken_; });
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (broken_) std::rethrow_exception(broken_);
    Made made = std::move(made_.extract(wanted).mapped());
    if (auto* error = std::get_if<std::exception_ptr>(&made)) std::rethrow_exception(*error);
    return std::get<Item>(std::move(made));
  }

  // Seconds for which get() waited since the last call.
  double take_wait() { return std::exchange(waited_, 0.0); }

 private:
  using Made = std::variant<Item, std::exception_ptr>;

  void work(const std::function<Make()>& open) {
    std::unique_lock lock(mutex_, std::defer_lock);
    try {
      const Make make = open();
      lock.lock();
      is_open_ = true;
      changed_.notify_all();
      while (true) {
        changed_.wait(lock, [&] { return ends_ || !wanted_.empty(); });
        if (ends_) return;
        const Wanted next = wanted_.front();
        wanted_.pop_front();
        making_ = next;
        lock.unlock();
        Made made = attempt(make, next);
        lock.lock();
        making_.reset();
        made_.insert_or_assign(next, std::move(made));
        changed_.notify_all();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      broken_ = std::current_exception();
      changed_.notify_all();
    }
  }

  static Made attempt(const Make& make, const Wanted& wanted) {
    try {
      return make(wanted);
    } catch (...) {
      return std::current_exception();
    }
  }

  double waited_ = 0;  // seconds
  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Wanted> wanted_;
  std::optional<Wanted> making_;
  std::map<Wanted, Made> made_;  // and not fetched
  bool ends_ = false, is_open_ = false;
  std::exception_ptr broken_;  // why the thread ended
  std::thread thread_;         // last: it uses the others
};

}  // namespace kinora::core
