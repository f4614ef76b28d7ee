// The loss at fixed noise levels on samples that training does not see.
#pragma once
#include <functional>
#include <vector>

#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/windows/samples.hpp"

namespace kinora::core {

// The noise levels of the validation: the given ones, or 0.1, 0.5 and 2 of noise to signal, in the units of
// the loss's mix. Throws Error(KINORA_ERROR_INVALID) for one that the loss does not have.
std::vector<double> validation_levels(const LossInstance&, std::vector<double> given);

class Validation {
 public:
  // Noise and given frames depend only on the seed and the sample's key.
  Validation(SampleStream&, const Objective&, Network&, const Parallelism&, const TrainOptions&,
             uint64_t seed);

  // "validation_loss", the mean of "validation": {"sigma": [..], "loss": [..]}. Every sample is computed
  // alone, on one of the data-parallel ranks, and they are added in a fixed order: the same number at any
  // topology. A loss without noise has one number.
  nlohmann::json losses() const;

  // A sample as the model sees it, with its text.
  struct Sample {
    int64_t number;  // of its noise
    NamedTensors batch;
    at::Tensor noise;
    Given given;
  };
  size_t size() const { return samples_.validation_size(); }
  Sample sample(size_t i) const;

 private:
  void begin() const;
  SampleStream& samples_;
  const Objective& objective_;
  Network& network_;
  const Parallelism& parallel_;
  GivenDraw given_;
  std::vector<double> sigmas_;
  uint64_t seed_;
};

}  // namespace kinora::core
