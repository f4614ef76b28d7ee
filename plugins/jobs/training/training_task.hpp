// The part of a training that its job defines: data, losses, measures. The Trainer (trainer.hpp) does the rest.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/torch/network/throughput.hpp"
#include "core/torch/weights/weights.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"
#include "plugins/jobs/training/sigma_losses.hpp"

namespace kinora::core {

// The result of one microbatch: the sum of its samples' losses, divided by the step's global number of
// samples, with its graph; and figures to log, and losses by noise level, added up the same way.
struct MicroLoss {
  at::Tensor loss;
  std::map<std::string, double> figures;
  SigmaLosses by_sigma;
  double loss_share = 1;  // share of its tokens that carry a loss
};

// The work of this rank for samples since the last call.
struct SamplesMade {
  int64_t encoded_frames = 0;
  std::optional<int64_t> bytes_read{};  // nothing: none are read while it trains
};

// [owner-thread] Every rank calls the functions in the same order.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // Before the first microbatch of each step. step: steps done.
  virtual void begin_step(int64_t step) { (void)step; }
  // The samples of the microbatch [first, first + count), in their order there; none: these.
  virtual std::vector<int64_t> numbers(int64_t first, int64_t count) {
    (void)first, (void)count;
    return {};
  }
  // Called while a microbatch is computed, with the samples of the next one.
  virtual void prepare(int64_t first, int64_t count) { (void)first, (void)count; }
  // The loss that changes the Trained number `role` of the training, for the samples [first, first + count), in
  // the global order of all samples ever drawn, of which this rank computes its part. The trainer asks for the
  // roles that are due in this step, in their order, and runs the backward of each before it asks for the next.
  // Meanwhile the weights of all other Trained record no gradient: the loss may pass through them.
  virtual MicroLoss micro_loss(size_t role, int64_t first, int64_t count) = 0;
  // After each step, before its line is logged: adds to the line, and returns whether it must be logged
  // whatever log_every is. step: steps done.
  virtual bool after_step(int64_t step, nlohmann::json& line) {
    (void)step, (void)line;
    return false;
  }

  // The task's own tensors from step to step, such as the samples of a replay buffer: whole and the same on every
  // rank. Checkpoints store state(), and a training that continues from one calls restore() with it.
  virtual NamedTensors state() const { return {}; }
  virtual void restore(NamedTensors state) { (void)state; }

  // Tokens of this rank's forwards since the last call.
  virtual TokenMeter::Count take_tokens() { return {}; }
  virtual SamplesMade take_samples_made() { return {}; }
  // Operations of a training step per sample; 0: unknown.
  virtual double flops_per_sample() { return 0; }
  // The samples that this rank could not use, which all ranks share after each step, so that the limits of failed ones
  // hold for the training, and which checkpoints store; null: none are read while it trains.
  virtual LostSamples* lost() { return nullptr; }
  // The counts of the loading of data so far, for metrics.prom of rank 0; null: nothing is loaded.
  virtual nlohmann::json loading() const { return nullptr; }
};

}  // namespace kinora::core
