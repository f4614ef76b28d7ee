// Which latent frames of a video are given, and how a model sees them: image to video, and the continuation of a video.
//
// B samples, C channels, T latent frames, H rows, W columns; K of the T frames are given.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/plugin/manifest.hpp"
#include "core/torch/attention/visibility.hpp"
#include "core/torch/media/streaming.hpp"
#include "core/torch/network/instances.hpp"
#include "kinora/abi/noise.h"
#include "plugins/jobs/inference/frame_options.hpp"

namespace kinora::core {

// How a model learns which latent frames are given.
enum class ConditionInput {
  level,    // only from their noise levels
  mask,     // also from `condition_mask`, one more channel: 1 where a frame is given
  channels  // from `condition`, Wan's image to video: the latent itself has no given frames
};
// Decided by its inputs and by its channels besides the latent's. condition_channels: those of `condition`, 0
// if unknown. Throws Error(KINORA_ERROR_INVALID) if nothing explains the other channels.
ConditionInput condition_input_of(const ComponentSpec& model, int64_t in_channels, int64_t latent_channels,
                                  int64_t condition_channels = 0);

// bool [B, T]: the first given[b] frames of sample b.
at::Tensor given_frames(const std::vector<int64_t>& given, int64_t frames);
// Wan's image to video (arXiv 2503.20314, section 5.1): a picture [1, 3, 1, H, W] followed by grey frames;
FramesOf followed_by_grey(const at::Tensor& picture);
// the same with a picture as the last frame;
FramesOf ended_by(FramesOf video, int64_t frames, const at::Tensor& picture);
// and its latent, preceded by mask channels, as many as a latent frame has frames (`time`): 1 in the first
// latent frame, and if a picture `ends` it, in the last channel of the last one.
at::Tensor masked_picture(const at::Tensor& latent, int64_t time, bool ends = false);

// sigma in the units of a mix.
double level_of(double sigma, uint32_t mix);

// The first frames of every latent are `clean`; the model sees them at their own noise level near zero, one
// level per frame (as in Cosmos-Predict 2 and Wan 2.2), and its output for them is ignored.
class FrameCondition {
 public:
  using Denoise = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& sigma)>;
  // clean: [1, C, K, H, W], normalised as in training. mix: the denoiser's. level: of the given frames.
  FrameCondition(at::Tensor clean, uint32_t mix, double level);

  // x [B, C, T, H, W], sigma [B] -> x0 with the given frames in place. Throws Error(KINORA_ERROR_INVALID)
  // unless K < T.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& sigma, const Denoise& denoise) const;
  int64_t frames() const { return clean_.size(2); }
  // The noise level of the given frames, [samples, K] float64.
  at::Tensor levels(int64_t samples) const;
  // [1, 1, T, H, W] float32: 1 where a frame is given.
  at::Tensor mask(int64_t frames) const;
  const at::Tensor& clean() const { return clean_; }

 private:
  at::Tensor clean_;
  double level_;
};

// Causal frames and teacher forcing (LongLive 2.0): a model learns a noisy chunk from the clean chunks before
// it, all chunks at once, and then makes a video chunk by chunk, each from the chunks that it made before.

// Throws Error(KINORA_ERROR_INVALID) for options that contradict each other.
void require_frames(const FrameOptions&);

// The rule of a training's forwards: with teacher forcing a sequence is the clean latent followed by the
// noisy one.
Frames training_rule(const FrameOptions&);
// The rule of a generation's forwards: a chunk and the chunks before it, once.
Frames generating_rule(const FrameOptions&);

// Options of a cache of keys and values: where they leave it open, it keeps what the rule lets chunks see.
nlohmann::json cache_of_frames(const FrameOptions&, nlohmann::json options);

// The noise level sigma (x0 + sigma n) that the model reads for clean frames: 0 if the loss has a timestep
// for it; else `otherwise` (EDM's is ln 0).
double clean_sigma(const LossInstance&, double otherwise);

}  // namespace kinora::core
