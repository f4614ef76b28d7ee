// A small DiT with its training step, whose speed `kinora plan --calibrate` and `kinora bench` measure.
#pragma once
#include "core/runtime/runtime.hpp"
#include "core/torch/network/model.hpp"
#include "plugins/jobs/train/training_plans.hpp"
#include "plugins/jobs/training/optimizer.hpp"

namespace kinora::core {

// model/dit with width 256 and 6 layers, and a text of 64 tokens. Throws kinora::Error.
class SmallDit {
 public:
  // side: of the latent of side / 4 frames; 32 gives 2048 tokens.
  SmallDit(Runtime&, int64_t side);
  // Floating-point operations of call(); a step has kTrainingStep times as many.
  double flops() const { return flops_; }
  void call();
  void step();  // forward, backward, clipping, AdamW

 private:
  Component component_;
  Options options_;
  Model network_;
  Optimizer optimizer_;
  NamedTensors in_;
  at::Tensor target_;
  double flops_ = 0;
};

// Measures for seconds, on one thread of this process.
StepRate measured_step_rate(Runtime&);

}  // namespace kinora::core
