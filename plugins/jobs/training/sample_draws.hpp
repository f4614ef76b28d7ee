// Draws what differs from one training sample to the next: the noise levels and the given frames of its
// latent. A draw depends only on the seed, a key and the sample's number, never on ranks or microbatches.
#pragma once
#include <string>

#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/train_options.hpp"

namespace kinora::core {

// Noise levels: one per sample, or one for each of its causal chunks or frames.
class LevelDraw {
 public:
  // Throws Error(KINORA_ERROR_INVALID) for options that contradict each other.
  LevelDraw(const TrainOptions&, const LossInstance&, uint64_t seed);
  // Throws the constructor's errors.
  static void require(const TrainOptions&, const LossInstance&);
  // For samples [first, first + count) of latents with this many frames: [count] or [count, frames] in the
  // units of the loss, float64.
  at::Tensor operator()(int64_t first, int64_t count, int64_t frames, const std::string& key) const;

 private:
  const LossInstance& loss_;
  Chunks levels_;  // frames that share one; each = 0: all
  uint64_t seed_;
};

// Whether the model reads one level per frame. Throws Error(KINORA_ERROR_INVALID) if it cannot, or if latents
// with this many frames leave teacher forcing nothing to learn from.
bool require_levels(const TrainOptions&, const ComponentSpec& model, const Options& its, int64_t frames);

// How samples are cut from windows, and the rule of latents of this size, [C, T, H, W] or that of codes.
ShotCut cut_of(const TrainOptions&);
Frames rule_of(const TrainOptions&, const std::vector<int64_t>& latent);
// Throws Error(KINORA_ERROR_INVALID) if this training cannot have samples of so many shots.
void require_shots(const TrainOptions&, const Options& model);

// Throws Error(KINORA_ERROR_INVALID) if this training cannot take windows of this many sizes in the way that its option
// `batches` says. data_ranks: those that hold different samples.
void require_window_sizes(const TrainOptions&, const LossInstance&, const ComponentSpec& model, size_t sizes,
                          int64_t data_ranks);

// Which frames of its own latent a sample is given, for image to video and continuations.
class GivenDraw {
 public:
  // Throws Error(KINORA_ERROR_INVALID) for options that contradict each other.
  GivenDraw(const TrainOptions&, const LossInstance&, uint64_t seed);
  // Throws the constructor's errors.
  static void require(const TrainOptions&, const LossInstance&);
  // For samples [first, first + count); empty without condition_frames.
  Given operator()(int64_t first, int64_t count, const std::string& key = "train") const;
  // The same for these samples.
  Given operator()(const std::vector<int64_t>& numbers) const;

 private:
  std::vector<int64_t> frames_;
  double sigma_;
  std::vector<double> noise_;
  bool shares_timestep_;
  uint32_t mix_;
  uint64_t seed_;
};

}  // namespace kinora::core
