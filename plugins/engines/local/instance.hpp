// An instance of a stage: in this process, or in its own.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kinora/abi/engine.h"
#include "kinora/abi/workers.h"
#include "kinora/error.hpp"

namespace kinora::local {

// Which stages run in their own processes, and the limits of these.
struct Isolation {
  std::vector<std::string> which{"none"};       // "auto", "none", "all", or names of stages
  double timeout = 0;                           // seconds without a sign of life; 0: none
  double limit = 0;                             // seconds that a sample may take; 0: any
  uint64_t memory = 0;                          // bytes a process may hold; 0: any
  uint64_t together = 0;                        // bytes all processes may hold together; 0: any
  int64_t retries = 1;                          // retries of a sample whose process ended
  const kinora_workers_api* workers = nullptr;  // null: the host does not start processes

  // Throws Error if processes are requested and the host has none, or if a name is not a stage.
  void check(const kinora_pipeline& pipeline) const;
  // Whether the stage may run in its own process, so that a crash of its constructor must not end this one.
  bool asks_apart(const kinora_stage_spec& spec) const;
  // The resources of an instance that is made in its own process. Throws Error that names the stage.
  kinora_resources ask(const kinora_stage_spec& spec) const;
  bool covers(const kinora_stage_spec& spec, const kinora_resources& resources) const;
};

// The host's table, or null without an error.
const kinora_workers_api* workers_of_host();

class Instance {
 public:
  Instance() = default;
  // Throw an Error that names the stage.
  static Instance here(const kinora_stage_spec& spec);
  static Instance apart(const kinora_stage_spec& spec, const Isolation& isolation);
  Instance(Instance&& o) noexcept
      : spec_(o.spec_),
        workers_(o.workers_),
        self_(std::exchange(o.self_, nullptr)),
        started_(o.started_),
        worker_(std::exchange(o.worker_, nullptr)) {}
  Instance& operator=(Instance&& o) noexcept {
    std::swap(spec_, o.spec_);
    std::swap(workers_, o.workers_);
    std::swap(self_, o.self_);
    std::swap(started_, o.started_);
    std::swap(worker_, o.worker_);
    return *this;
  }
  ~Instance();

  explicit operator bool() const { return self_ || worker_; }
  // For an instance in this process.
  kinora_resources resources() const;
  int32_t process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run);
  int32_t process_batch(std::span<kinora_sample* const> in, const kinora_emit& emit,
                        const kinora_run& run);  // not apart
  bool has_finish() const { return spec_->stage->finish != nullptr; }
  int32_t finish(const kinora_emit& emit, const kinora_run& run);
  bool is_apart() const { return worker_ != nullptr; }
  // Its process has ended, and with it everything that it held.
  bool ended() const { return worker_ && workers_->ended(worker_) != 0; }

 private:
  // Calls the stage's start() before its first sample. An error becomes KINORA_ERROR_REFUSED, which ends the
  // run.
  int32_t start(const kinora_run& run);

  const kinora_stage_spec* spec_ = nullptr;
  const kinora_workers_api* workers_ = nullptr;
  void* self_ = nullptr;
  bool started_ = false;
  kinora_worker* worker_ = nullptr;
};

}  // namespace kinora::local
