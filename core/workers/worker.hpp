// A stage in a process of its own, seen from the process that uses it: see abi/workers.h.
#pragma once
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/workers/life_signs.hpp"
#include "kinora/abi/workers.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// The program that is started as `PROGRAM --plugins DIR... worker`, which calls serve_worker().
struct WorkerProgram {
  std::filesystem::path program;
  std::vector<std::filesystem::path> plugin_dirs;
};

// The descriptors that it inherits.
constexpr int kWorkerSocket = 3, kWorkerPage = 4;

// The most bytes that a worker of this process has held at once, memory of its own and shared memory that it
// made.
uint64_t most_held_by_a_worker();

class Worker {
 public:
  // Returns when the other process has made its instance. Throws Error.
  Worker(const WorkerProgram&, const kinora_worker_spec&);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // What the stage returned, or throws Error(KINORA_FAILED) with how the process ended, KINORA_CANCELLED.
  int32_t process(const Sample& in, const kinora_emit&, const kinora_run&);
  int32_t finish(const kinora_emit&, const kinora_run&);
  bool ended() const { return ended_; }
  pid_t pid() const { return pid_; }

 private:
  using Clock = std::chrono::steady_clock;
  void stop();
  void spawn(const WorkerProgram&, int socket, std::vector<std::string> variables);
  void lend_keys(Message&);
  int32_t converse(const Message& call, const kinora_emit*, const kinora_run*);
  bool answered(Message&, const kinora_emit*, int32_t& status);
  int32_t passed_on(Message&, const kinora_emit&);
  int32_t set_fields(const Sample& changes) const;
  void watch(const kinora_run*);
  // Ends it and throws `why`; how it ended by itself where why is empty.
  [[noreturn]] void end(const std::string& why);

  const std::string name_;
  const double hang_, limit_;
  const uint64_t memory_;
  LifeSigns signs_;
  Channel channel_;
  pid_t pid_ = -1;
  kinora_sample* input_ = nullptr;  // of the call, borrowed
  bool ended_ = false, has_keys_ = false;
  uint64_t beats_ = 0;
  std::set<ino_t> given_;  // shared memory that the call in progress came with
  Clock::time_point lived_{}, began_{}, asked_to_stop_{};
};

}  // namespace kinora::core
