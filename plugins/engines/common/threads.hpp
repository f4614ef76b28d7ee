// The threads of this process: they do what an engine posts, one job at a time each.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "plugins/engines/common/instance.hpp"

namespace kinora::engines {

class Threads : public Executor {
 public:
  ~Threads() override { join(); }
  // Does what was posted, and ends the threads.
  void join();

  void post(std::function<void()> work, bool here) override;
  void wait(double seconds) override;
  void wake() override;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable posted_, woken_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;  // threads without a job, and those that take one in a moment
  bool quit_ = false, awake_ = false;
};

}  // namespace kinora::engines
