// Causal frames and teacher forcing (LongLive 2.0): a model learns a noisy chunk from the clean chunks before
// it, all chunks at once, and then makes a video chunk after chunk, each behind those that it made.
#pragma once
#include <functional>
#include <optional>

#include "plugins/jobs/training/options/frame_options.hpp"
#include "core/torch/context/instances.hpp"
#include "core/torch/context/visibility.hpp"
#include "plugins/jobs/training/generating/frame_condition.hpp"

namespace kinora::core {

// Throws Error(KINORA_INVALID) for options that contradict each other.
void require_frames(const FrameOptions&);

// Of a training's forwards: with teacher forcing a sequence is the clean latent and behind it the noisy one.
Frames training_rule(const FrameOptions&);
// Of a generation's: a chunk and what is before it, once.
Frames generating_rule(const FrameOptions&);

// The noise level sigma (x0 + sigma n) that the model is told of clean frames: 0, if the loss has a timestep
// for that; else `otherwise` (EDM's is ln 0).
double clean_sigma(const LossInstance&, double otherwise);

// How a video is made: all frames at once, or in chunks of so many, of which those that are done are given at
// this level.
struct Rollout {
  int64_t chunk = 0;  // 0: all at once
  uint32_t mix = 0;
  double sigma = 0;
};
Rollout rollout_of(const FrameOptions&, const LossInstance&, double condition_sigma);

// Samples a video of noise's frames [1, C, T, H, W], of which `given` are there already (null: none).
using SampleFrames = std::function<at::Tensor(const at::Tensor& noise, const FrameCondition* given)>;
at::Tensor roll_out(const Rollout&, const at::Tensor& noise, std::optional<FrameCondition> given,
                    const SampleFrames& sample);

// Of the conditions of a video those of its first frames: what has frames is cut, and the mask is `given`'s.
NamedTensors of_first_frames(NamedTensors conditions, int64_t frames, const FrameCondition* given);

}  // namespace kinora::core
