// A stage used as a function: one sample in, one sample out, in this thread.
#pragma once
#include "core/options.hpp"
#include "core/runtime.hpp"
#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"

namespace kinora::core {

class OneStage {
 public:
  // Throws kinora::Error if there is no such stage, it cannot be opened, or an option is wrong.
  OneStage(Registry&, const std::string& id, const json& options);
  OneStage(Registry&, const std::string& id, const Options& options);
  OneStage(Runtime& runtime, const std::string& id, const json& options)
      : OneStage(runtime.registry(), id, options) {}
  OneStage(Runtime& runtime, const std::string& id, const Options& options)
      : OneStage(runtime.registry(), id, options) {}
  OneStage(const OneStage&) = delete;
  OneStage& operator=(const OneStage&) = delete;
  ~OneStage();

  // What the instance says of itself; zeros for what it leaves out.
  kinora_resources resources() const;
  // Throws the stage's error; KINORA_DATA if the stage drops the sample or emits none or several.
  Sample operator()(const Sample& in) const;

 private:
  std::string id_;
  const kinora_stage* stage_ = nullptr;
  void* self_ = nullptr;
};

}  // namespace kinora::core
