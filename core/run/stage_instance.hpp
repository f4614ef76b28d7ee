// An instance of a stage used outside a pipeline. It runs in a process of its own if the stage declares that it reads
// untrusted media (kinora_resources.isolated) and this program starts workers, otherwise in this process.
#pragma once
#include <string>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "kinora/abi/stage.h"
#include "kinora/abi/workers.h"

namespace kinora::core {

// Whether a stage may have a process of its own, and the longest silence on one sample before that process is killed.
struct Isolation {
  bool is_allowed = true;
  double timeout = 300;  // seconds
};

// Use from one thread at a time.
class StageInstance {
 public:
  // Throws kinora::Error if there is no such stage, or it cannot be opened or created.
  StageInstance(Registry&, const std::string& id, const Options& options, const Isolation& isolation);
  StageInstance(const StageInstance&) = delete;
  StageInstance& operator=(const StageInstance&) = delete;
  ~StageInstance();

  const std::string& id() const { return id_; }
  // Resources that the instance declares; zero for those that it omits.
  kinora_resources resources() const;

  // Throws the stage's error; ProcessEnded if its process died during the call. The next call uses a new process, in
  // which the stage has lost its state.
  void process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run);
  void finish(const kinora_emit& emit, const kinora_run& run);

  struct ProcessEnded : Error {
    using Error::Error;
  };

 private:
  // If the process dies during the call, the message begins with `of`.
  template <class Call>
  void in_process(const std::string& of, Call call);
  std::string id_, options_;
  const Isolation isolation_;
  const kinora_stage* stage_ = nullptr;
  void* self_ = nullptr;
  const kinora_workers_api* workers_ = nullptr;  // null: the stage runs here
  kinora_worker* worker_ = nullptr;              // started by the first call
};

}  // namespace kinora::core
