// Draws the noise levels of training samples: one per sample, or one for each of its causal chunks or frames.
#pragma once
#include <string>

#include "plugins/jobs/training/options/training.hpp"
#include "plugins/jobs/training/objective.hpp"

namespace kinora::core {

class LevelDraw {
 public:
  // Throws Error(KINORA_INVALID) for options that contradict each other.
  LevelDraw(const TrainOptions&, const LossInstance&, uint64_t seed);
  // Throws the constructor's errors.
  static void require(const TrainOptions&, const LossInstance&);
  // For samples [first, first + count) of latents with this many frames: [count] or [count, frames] in the
  // units of the loss, float64; depends only on the seed, `key` and the sample's number.
  at::Tensor operator()(int64_t first, int64_t count, int64_t frames, const std::string& key) const;

 private:
  const LossInstance& loss_;
  int64_t each_;  // frames per level; 0: all
  uint64_t seed_;
};

// Whether the model reads one level per frame. Throws Error(KINORA_INVALID) if it cannot, or if latents with
// this many frames leave teacher forcing nothing to learn from.
bool require_levels(const TrainOptions&, const ComponentSpec& model, const Options& its, int64_t frames);

}  // namespace kinora::core
