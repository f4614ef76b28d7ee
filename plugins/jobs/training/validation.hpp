// The loss at fixed noise levels on samples that training does not see.
#pragma once
#include <functional>
#include <vector>

#include "core/torch/context/parallelism.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/training.hpp"
#include "plugins/jobs/training/sample_draws.hpp"

namespace kinora::core {

// Splits a cache's samples into two parts. A clip is held out if the hash of its key falls into the first
// `share` of all hashes: adding clips moves none of the others. Windows of one clip ("clip@17") are in the
// same part, since they overlap.
struct Split {
  std::vector<int64_t> train, held_out;
};
Split split(const LatentData& data, double share);

// In [0, 1), from SHA-256.
double hash_share(const std::string& key);

// The noise levels of the validation: the given ones, or 0.1, 0.5 and 2 of noise to signal, in the units of
// the loss's mix. Throws Error(KINORA_ERROR_INVALID) for one that the loss does not have.
std::vector<double> validation_levels(const LossInstance&, std::vector<double> given);

class Validation {
 public:
  // The held-out samples with the lowest hashes, at most options.validation_samples; the first training
  // samples if none are held out. Noise and given frames depend only on the seed and the sample's key.
  Validation(const LatentData&, const Split&, const Objective&, Network&, const Parallelism&,
             const TrainOptions&, uint64_t seed);

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
  size_t size() const { return which_.size(); }
  Sample sample(size_t i) const;

 private:
  void begin() const;
  const LatentData& data_;
  const Objective& objective_;
  Network& network_;
  const Parallelism& parallel_;
  GivenDraw given_;
  std::vector<int64_t> which_;
  std::vector<double> sigmas_;
  uint64_t seed_;
};

}  // namespace kinora::core
