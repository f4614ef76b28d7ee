// A stage in its own process, seen from the process that uses it: see abi/workers.h.
#pragma once
#include <chrono>
#include <set>
#include <string>

#include "host/workers/channel.hpp"
#include "host/workers/held_memory.hpp"
#include "host/workers/process.hpp"
#include "kinora/abi/workers.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// Calls start() of a stage that has one, once for each instance, before its first sample. Throws
// Error(KINORA_ERROR_REFUSED), since a stage that cannot start processes no sample.
void start_stage(const kinora_stage& stage, void* self, const kinora_run& run);

// The process has ended; how says in which way. Its last words are in the log.
struct WorkerDied : Error {
  WorkerDied(int32_t code, const std::string& message, std::string ended, bool by_system)
      : Error(code, message), how(std::move(ended)), killed(by_system) {}
  std::string how;  // without a remedy
  bool killed;      // by SIGKILL, but not by this process: as a system that is short of memory does
};

// The maximum number of bytes that a worker of this process has held at once, with the processes its stage
// started: private memory and shared memory that it created; since the last call of count_held_anew().
uint64_t most_held_by_a_worker();
void count_held_anew();

class Worker {
 public:
  // Returns when the other process has created its instance. Throws Error; KINORA_ERROR_CANCELLED once the
  // program is asked to stop; WorkerDied if the process died, with KINORA_ERROR_NO_MEMORY if it was killed.
  Worker(const WorkerProgram&, const kinora_worker_spec&);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // The resources() of the instance.
  const kinora_resources& resources() const { return resources_; }
  // The stage's return value; throws WorkerDied, Error(KINORA_ERROR_CANCELLED).
  int32_t process(const Sample& in, const kinora_emit&, const kinora_run&);
  int32_t finish(const kinora_emit&, const kinora_run&);
  bool ended() const { return ended_; }
  pid_t pid() const { return process_.pid(); }

 private:
  using Clock = std::chrono::steady_clock;
  void stop();
  void lend_keys(Message&);
  int32_t converse(const Message& call, const kinora_emit*, const kinora_run*);
  bool answered(Message&, const kinora_emit*, int32_t& status);
  int32_t passed_on(Message&, const kinora_emit&);
  int32_t set_fields(const Sample& changes) const;
  void watch(const kinora_run*);
  void watch_memory(Clock::time_point now);
  uint64_t held_with_started(Clock::time_point now);
  void watch_making(Clock::time_point now);
  void hear_the_rest();
  // Ends it and throws `why`; if why is empty, how it ended by itself.
  [[noreturn]] void end(const std::string& why);

  const std::string name_;
  const double hang_, limit_, making_;
  const uint64_t memory_, together_;
  HeldByOne held_;
  LifeSigns signs_;
  Channel channel_;
  WorkerOutput output_;
  WorkerProcess process_;
  kinora_resources resources_{};
  kinora_sample* input_ = nullptr;  // of the call, borrowed
  bool ended_ = false, has_keys_ = false, said_slow_ = false;
  uint64_t beats_ = 0;
  std::set<ino_t> given_;  // shared memory that came with the current call
  Clock::time_point lived_{}, began_{}, asked_to_stop_{}, next_look_{}, watched_{};
  uint64_t last_look_ = 0, with_started_ = 0;
};

}  // namespace kinora::core
