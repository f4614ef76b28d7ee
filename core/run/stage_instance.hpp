// An instance of a stage that is used outside a pipeline: in this process, or in one of its own where the
// stage says that it reads media of strangers (kinora_resources.isolated) and this program starts workers.
#pragma once
#include <string>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "kinora/abi/stage.h"
#include "kinora/abi/workers.h"

namespace kinora::core {

// Whether a stage may have a process of its own, and how long it may be silent at one sample before that is
// killed.
struct Isolation {
  bool is_allowed = true;
  double timeout = 300;  // seconds
};

// One thread at a time.
class StageInstance {
 public:
  // Throws kinora::Error if there is no such stage, or it cannot be opened or made.
  StageInstance(Registry&, const std::string& id, const Options& options, const Isolation& isolation);
  StageInstance(const StageInstance&) = delete;
  StageInstance& operator=(const StageInstance&) = delete;
  ~StageInstance();

  const std::string& id() const { return id_; }
  // Resources that the instance declares; zero for what it leaves out.
  kinora_resources resources() const;

  // Throws the stage's error; ProcessEnded if its process did not survive the call. The next call has another
  // process, and sees nothing of what the stage had kept.
  void process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run);
  void finish(const kinora_emit& emit, const kinora_run& run);

  struct ProcessEnded : Error {
    using Error::Error;
  };

 private:
  // `of` begins the message where the process ends over the call.
  template <class Call>
  void in_process(const std::string& of, Call call);
  std::string id_, options_;
  const Isolation isolation_;
  const kinora_stage* stage_ = nullptr;
  void* self_ = nullptr;
  const kinora_workers_api* workers_ = nullptr;  // null: the stage runs here
  kinora_worker* worker_ = nullptr;              // begins with the first call
};

}  // namespace kinora::core
