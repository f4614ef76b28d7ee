// The threads of this process: they make instances and call them, one job at a time each.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "plugins/engines/local/instance.hpp"

namespace kinora::local {

class Threads final : public engines::Executor {
 public:
  explicit Threads(const Isolation& isolation) : isolation_(isolation) {}
  ~Threads() override { join(); }
  // Does what was posted, and ends the threads.
  void join();

  engines::FirstInstance first(const kinora_stage_spec& spec) override { return isolation_.first(spec); }
  void start(const engines::StageState& stage, const engines::Slot& slot, Started started) override;
  void post(std::function<void()> work, bool here) override;
  void wait(double seconds) override;
  void wake() override;

 private:
  void work();

  const Isolation& isolation_;
  std::mutex mutex_;
  std::condition_variable posted_, woken_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;  // threads without a job, and those that take one in a moment
  bool quit_ = false, awake_ = false;
};

}  // namespace kinora::local
