// Chooses which frames of its own latent a sample is given in training: for image to video, and
// continuations.
#pragma once
#include <string>

#include "plugins/jobs/training/options/training.hpp"
#include "plugins/jobs/training/objective.hpp"

namespace kinora::core {

class GivenDraw {
 public:
  // Throws Error(KINORA_INVALID) for options that contradict each other.
  GivenDraw(const TrainOptions&, const LossInstance&, uint64_t seed);
  // Throws the constructor's errors.
  static void require(const TrainOptions&, const LossInstance&);
  // For samples [first, first + count): depends only on the seed, `key` and the sample's number.
  Given operator()(int64_t first, int64_t count, const std::string& key = "train") const;

 private:
  std::vector<int64_t> frames_;
  double sigma_;
  std::vector<double> noise_;
  uint32_t mix_;
  uint64_t seed_;
};

}  // namespace kinora::core
