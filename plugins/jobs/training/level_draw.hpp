// The noise levels of training samples: one a sample, or one of their own for its causal chunks or frames.
#pragma once
#include <string>

#include "plugins/jobs/training/options/training.hpp"
#include "plugins/jobs/training/objective.hpp"

namespace kinora::core {

class LevelDraw {
 public:
  // Throws Error(KINORA_INVALID) for options that contradict each other.
  LevelDraw(const TrainOptions&, const LossInstance&, uint64_t seed);
  // What the constructor throws.
  static void require(const TrainOptions&, const LossInstance&);
  // Of samples [first, first + count), of latents of so many frames: [count] or [count, frames] in the units
  // of the loss, float64; a function of the seed, `key` and the sample's number.
  at::Tensor operator()(int64_t first, int64_t count, int64_t frames, const std::string& key) const;

 private:
  const LossInstance& loss_;
  int64_t each_;  // frames of a level; 0: all
  uint64_t seed_;
};

// Whether the model is told a level a frame. Throws Error(KINORA_INVALID) if it takes none, or if teacher
// forcing has nothing to learn from in latents of so many frames.
bool require_levels(const TrainOptions&, const ComponentSpec& model, const Options& its, int64_t frames);

}  // namespace kinora::core
