// The inputs of a model that a request decides: embeddings, signals, given frames and the initial noise.
#pragma once
#include <optional>
#include <utility>

#include "plugins/jobs/inference/pipeline.hpp"
#include "plugins/jobs/inference/rollout.hpp"

namespace kinora::core::inference {

// The shots of the request. Throws Error(KINORA_ERROR_UNSUPPORTED) for a pipeline that cannot make them.
ShotList shots_in(Pipeline& pipeline, const Request& request);

// [owner-thread] It takes the pipeline's turns itself, and has one in the calls that take `run`.
class RequestInputs {
 public:
  // All must outlive this object.
  RequestInputs(Pipeline& pipeline, const Request& request, const kinora_run& run);

  void set_text(const std::string& prompt);
  // As before the first set_text() and add_shot().
  void begin_again();
  // The text goes over from that of the last set_text() before to the present one: 0 is the one before, 1 the present.
  void blend_text(double share);
  // [C, t, h, w] of the request's size; a list of shots has another number of frames().
  const std::vector<int64_t>& shape() const { return shape_; }
  // Latent frames of the video.
  int64_t frames() const { return frames_; }
  const ShotList& shots() const { return shots_; }
  // As ShotList::add(). frames() stays.
  void add_shot(int64_t chunk, const Shot& shot) { shots_.add(chunk, shot); }
  int64_t pixel_frames() const { return 1 + (frames_ - 1) * pipeline_.tokenizer_info().time; }
  // The picture's embeddings, for both predictions.
  void set_image();
  // For both predictions. Throws Error(KINORA_ERROR_INVALID) for a signal that the model does not take.
  void set_signals();
  // The condition channels of a model that reads given frames so.
  void set_channels(const std::optional<FrameCondition>& given);
  const Conditions& with() const { return with_; }
  const Conditions& none() const { return none_; }

  std::optional<FrameCondition> given_frames();
  // The encoded frames that the result begins with: normalised latents or codes; undefined: none.
  at::Tensor begins_with();
  // Pure noise, or the request's video noised to the level at which its change starts, and the index of that
  // level. It is the same by (seed, number) on every rank: ranks share only the model's work.
  // Together with the sampler's state it is float64 on the CPU, 37 MiB per tensor for Wan 14B at 720p and 81
  // frames; a block's tensors are 92 (stream) to 277 MiB (q, k, v) in bfloat16 on the device of each of 8
  // ranks.
  std::pair<NoiseOf, int64_t> beginning(const SamplerInstance& sampler);

 private:
  // uint8 [T, H, W, 3] -> normalised latents [1, C, t, h, w], or codes [1, t, h, w].
  at::Tensor encoded(const at::Tensor& frames);
  at::Tensor encoded_latent(int64_t frames, const FramesOf& video);
  // The frames of the request's video that its continuation begins with; undefined: none.
  at::Tensor continued();
  at::Tensor first_frame_of_video();
  at::Tensor whole_video();
  ConditionInput condition_input() const;
  at::Tensor channels_of_image();
  NoiseOf drawn() const;

  Pipeline& pipeline_;
  const Request& request_;
  const kinora_run& run_;
  FrameSize frame_size() const {
    const auto& info = pipeline_.tokenizer_info();
    return {shape_[2] * info.height, shape_[3] * info.width};
  }

  ShotList shots_;
  const std::vector<int64_t> shape_;
  const int64_t frames_;
  Conditions with_, none_;
  at::Tensor text_, text_before_;  // [1, tokens, size]
};

}  // namespace kinora::core::inference
