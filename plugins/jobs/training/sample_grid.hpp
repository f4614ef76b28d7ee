// Draws samples from the model during training, as a generation would.
#pragma once
#include <memory>

#include "plugins/jobs/inference/guidance.hpp"
#include "plugins/jobs/inference/rollout.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/validation.hpp"

namespace kinora::core {

// The job's own sampler, or the default sampler of the loss.
std::unique_ptr<SamplerInstance> sample_sampler(const JobView&, const TrainOptions&, uint32_t mix);
// Pictures show validation samples; throws Error(KINORA_ERROR_INVALID) if there are too few.
void require_samples(const TrainOptions&);

class SampleGrid {
 public:
  // Everything is kept by reference; validation and objective are the training's.
  SampleGrid(JobContext&, const TrainOptions&, const Validation&, const Objective&, const LatentFacts&,
             Model&, GuidedModel&&, bool writes);

  // Draws options.samples samples with the texts, conditions and given frames of the first validation
  // samples, from noise that is the same at every step, on every rank. On the rank that writes:
  // samples/step-000100.safetensors, their normalised latents [N, C, T, H, W], and, if the latents' tokenizer
  // is available, step-000100.png, which is returned: one row per sample, the original's middle frame, then
  // the first, middle and last frame of the sample.
  std::optional<std::filesystem::path> draw(int64_t step);

  // [1, C, T, H, W], normalised, in float64.
  at::Tensor made(const Validation::Sample&);

 private:
  // Frames of a sample, some of which are given.
  at::Tensor made(const Conditions&, int64_t number, const Rollout::Piece& piece);
  // uint8 [H, 4 W, 3].
  at::Tensor row(const at::Tensor& was, const at::Tensor& made);

  JobContext& context_;
  TrainOptions options_;
  const Validation& validation_;
  const Objective& objective_;
  const LatentFacts& facts_;
  Model& network_;
  GuidedModel guided_;
  bool writes_;
  std::unique_ptr<SamplerInstance> sampler_;
  std::unique_ptr<Tokenizer> tokenizer_;  // null: not available
};

}  // namespace kinora::core
