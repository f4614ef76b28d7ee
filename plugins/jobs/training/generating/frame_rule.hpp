// Causal frames and teacher forcing (LongLive 2.0): a model learns a noisy chunk from the clean chunks before
// it, all chunks at once, and then makes a video chunk by chunk, each from the chunks that it made before.
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

// The rule of a training's forwards: with teacher forcing a sequence is the clean latent followed by the
// noisy one.
Frames training_rule(const FrameOptions&);
// The rule of a generation's forwards: a chunk and the chunks before it, once.
Frames generating_rule(const FrameOptions&);

// The noise level sigma (x0 + sigma n) that the model reads for clean frames: 0 if the loss has a timestep
// for it; else `otherwise` (EDM's is ln 0).
double clean_sigma(const LossInstance&, double otherwise);

// How a video is made: all frames at once, or in chunks of this many frames, with finished chunks given at
// this noise level.
struct Rollout {
  int64_t chunk = 0;  // 0: all at once
  uint32_t mix = 0;
  double sigma = 0;
};
Rollout rollout_of(const FrameOptions&, const LossInstance&, double condition_sigma);

// Samples a video of noise's frames [1, C, T, H, W], of which `given` already exist (null: none).
using SampleFrames = std::function<at::Tensor(const at::Tensor& noise, const FrameCondition* given)>;
at::Tensor roll_out(const Rollout&, const at::Tensor& noise, std::optional<FrameCondition> given,
                    const SampleFrames& sample);

// The conditions of a video for its first frames only: tensors with frames are cut, and the mask is
// `given`'s.
NamedTensors of_first_frames(NamedTensors conditions, int64_t frames, const FrameCondition* given);

}  // namespace kinora::core
