// A stage used as a function: one sample in, one sample out, in this thread.
#pragma once
#include "core/run/stage_instance.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

class OneStage {
 public:
  // Throws kinora::Error if there is no such stage, it cannot be opened, or an option is wrong.
  OneStage(Registry&, const std::string& id, const json& options, const Isolation& = {});
  OneStage(Registry& registry, const std::string& id, const Options& options, const Isolation& isolation = {})
      : instance_(registry, id, options, isolation) {}
  OneStage(Runtime& runtime, const std::string& id, const json& options, const Isolation& isolation = {})
      : OneStage(runtime.registry(), id, options, isolation) {}
  OneStage(Runtime& runtime, const std::string& id, const Options& options, const Isolation& isolation = {})
      : OneStage(runtime.registry(), id, options, isolation) {}

  kinora_resources resources() const { return instance_.resources(); }
  // Throws the stage's error; KINORA_DATA if the stage drops the sample, emits no or several samples, or its process
  // died of it twice.
  Sample operator()(const Sample& in) const;

 private:
  mutable StageInstance instance_;
};

}  // namespace kinora::core
