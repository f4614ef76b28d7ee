// Encodes a window of frames as an encode job does: a latent or codes, and the conditions that come with it.
#pragma once
#include <optional>

#include "core/torch/media/streaming.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "kinora/abi/parallel.h"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/windows/encode_options.hpp"
#include "plugins/jobs/windows/window_size.hpp"

namespace kinora::core {

// Whether all values of the latents are finite; codes are.
bool is_finite(const NamedTensors& tensors);

class WindowEncoder {
 public:
  // encode: the job with the tokenizer, the image encoder and the options. group: the ranks that encode each
  // window together, of which the first gets the result; null: this process alone. It must outlive this
  // object.
  WindowEncoder(const JobView& encode, const EncodeOptions& options, at::Device device,
                const kinora_group* group = nullptr);

  // The frames of a window that this rank reads.
  Stretch own_frames() const;
  // The shape of an encoded window of this size: a latent [C, t, h, w], or codes [t, h, w].
  std::vector<int64_t> shape(const WindowSize& size) const;
  // frames: own_frames() of the window, or, without a group, a window of any size; uint8 [T, H, W, 3], at
  // least one. "latent" [C, t, h, w] or "codes" [t, h, w]; "condition" with first_frame; "image" [L, D] with
  // an image encoder (2 L of both ends with last_frame). On the CPU. Every rank of the group calls it, and
  // only the first gets tensors. run: the caller's; null: nobody stops the call.
  NamedTensors operator()(const at::Tensor& frames, const kinora_run* run = nullptr);

 private:
  bool writes() const { return !group_ || group_->rank == 0; }

  int64_t frames_;
  std::string id_;  // of the tokenizer
  bool first_frame_, last_frame_;
  at::Device device_;
  const kinora_group* group_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ImageEncoder> image_;
};

}  // namespace kinora::core
