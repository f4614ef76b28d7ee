// An instance of a stage: in this process, or in one of its own.
#pragma once
#include <string>
#include <vector>

#include "kinora/abi/engine.h"
#include "kinora/abi/workers.h"
#include "kinora/error.hpp"

namespace kinora::local {

// Which stages run in processes of their own, and what happens to those.
struct Isolation {
  std::vector<std::string> which{"none"};  // "auto", "none", "all", or names of stages
  double timeout = 0;                      // seconds without a sign of life; 0: none
  double limit = 0;                        // seconds that a sample may take; 0: any
  uint64_t memory = 0;                     // bytes a process may hold; 0: any
  uint64_t together = 0;                   // bytes all processes may hold together; 0: any
  int64_t retries = 1;                     // of a sample whose process ended
  const kinora_workers_api* workers = nullptr;  // null: the host starts no processes

  // Throws Error where processes are asked for and the host has none, or a name is no stage's.
  void check(const kinora_pipeline& pipeline) const;
  // Whether the stage may come to run in a process of its own, where a crash of its constructor would end this one.
  bool asks_apart(const kinora_stage_spec& spec) const;
  // What an instance says that it needs, made in a process of its own. Throws Error that names the stage.
  kinora_resources ask(const kinora_stage_spec& spec) const;
  bool covers(const kinora_stage_spec& spec, const kinora_resources& resources) const;
};

// The host's, or null without an error.
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
        worker_(std::exchange(o.worker_, nullptr)) {}
  Instance& operator=(Instance&& o) noexcept {
    std::swap(spec_, o.spec_);
    std::swap(workers_, o.workers_);
    std::swap(self_, o.self_);
    std::swap(worker_, o.worker_);
    return *this;
  }
  ~Instance();

  explicit operator bool() const { return self_ || worker_; }
  // Of one in this process.
  kinora_resources resources() const;
  int32_t process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run) const;
  bool has_finish() const { return spec_->stage->finish != nullptr; }
  int32_t finish(const kinora_emit& emit, const kinora_run& run) const;
  bool is_apart() const { return worker_ != nullptr; }
  // Its process is gone, and with it all that it kept back.
  bool ended() const { return worker_ && workers_->ended(worker_) != 0; }

 private:
  const kinora_stage_spec* spec_ = nullptr;
  const kinora_workers_api* workers_ = nullptr;
  void* self_ = nullptr;
  kinora_worker* worker_ = nullptr;
};

}  // namespace kinora::local
