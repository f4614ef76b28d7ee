// A stage used outside a pipeline: its instance, the outcomes of its samples, and a call as of a function.
#pragma once
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/abi/stage.h"
#include "kinora/abi/workers.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// Whether a stage may have a process of its own, and the longest silence on one sample before that process is
// killed.
struct Isolation {
  bool is_allowed = true;
  double timeout = 300;  // seconds
  // Seconds for which OneStage continues after the run was asked to stop, as NeededCall.
  double patience = 0;
  // Whoever made the run vouches for its media: only a third party's stage has a process.
  bool trusts_media = false;
};

// Runs in a process of its own if this program starts workers and the stage declares that it reads untrusted
// media (kinora_resources.isolated) or its plugin is a third party's; otherwise in this process. Use from one
// thread at a time.
class StageInstance {
 public:
  // Throws kinora::Error if there is no such stage, or it cannot be opened or created.
  StageInstance(Registry&, const std::string& id, const Options& options, const Isolation& isolation);
  StageInstance(const StageInstance&) = delete;
  StageInstance& operator=(const StageInstance&) = delete;
  ~StageInstance();

  const std::string& id() const { return id_; }
  // Resources that the instance declares; zero for those that it omits. In a process of its own batch is 0.
  kinora_resources resources() const;
  // Whether it is known that samples leave nothing in the instance but held inputs: it has no state (ordered = 1) and
  // no finish().
  bool keeps_nothing() const;

  // Throws the stage's error; ProcessEnded if its process died during the call. The next call uses a new
  // process, in which the stage has lost its state.
  void process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run);
  // Two samples or more, at most the batch of its resources().
  void process_batch(std::span<kinora_sample* const> in, const kinora_emit& emit, const kinora_run& run);
  void finish(const kinora_emit& emit, const kinora_run& run);

  struct ProcessEnded : Error {
    using Error::Error;
  };

 private:
  void start_once(const kinora_run& run);
  kinora_worker_spec worker_spec() const;
  void start_worker();
  // If the process dies during the call, the message begins with `of`.
  template <class F>
  void in_process(const std::string& of, F call);
  const std::string id_, options_;
  const Isolation isolation_;
  const kinora_stage* stage_ = nullptr;  // null, as self_: a third party's, in a process of its own
  void* self_ = nullptr;
  bool started_ = false;
  const kinora_workers_api* workers_ = nullptr;  // null: the stage runs here
  kinora_worker* worker_ = nullptr;              // started when it is needed
};

// Collects the outcomes of the samples of one instance.
struct StageResults {
  struct Dropped {
    std::string key, rule;
    double score;
    Sample sample;
  };
  struct Failed {
    std::string key, reason;
  };
  std::vector<Sample> emitted;
  std::vector<Dropped> dropped;
  std::vector<Failed> failed;
  std::string input;           // key of the sample in process(); empty: none
  std::set<std::string> held;  // inputs that are held and have no outcome yet

  // Call after finish(): counts inputs that are still held as failed.
  void end_held();
  // For kinora_stage.process and finish; this object must outlive it.
  kinora_emit sink();
};

// The damage that a stage found in the sample's media: the text "damaged" of its field json or of one *.json;
// empty if there is none.
std::string damage_of(const Sample& sample);

// One sample in, one sample out, in this thread.
class OneStage {
 public:
  // Throws kinora::Error if there is no such stage, it cannot be opened, or an option is wrong.
  OneStage(Registry&, const std::string& id, const json& options, const Isolation& = {});
  OneStage(Registry& registry, const std::string& id, const Options& options, const Isolation& isolation = {})
      : instance_(registry, id, options, isolation), patience_(isolation.patience) {}
  OneStage(Runtime& runtime, const std::string& id, const json& options, const Isolation& isolation = {})
      : OneStage(runtime.registry(), id, options, isolation) {}
  OneStage(Runtime& runtime, const std::string& id, const Options& options, const Isolation& isolation = {})
      : OneStage(runtime.registry(), id, options, isolation) {}

  kinora_resources resources() const { return instance_.resources(); }
  // Throws the stage's error; KINORA_ERROR_DATA if the stage drops the sample, emits no or several samples,
  // or its process died of it twice.
  Sample operator()(const Sample& in) const;

 private:
  mutable StageInstance instance_;
  double patience_;
};

}  // namespace kinora::core
