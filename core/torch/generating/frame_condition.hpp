// Latent frames that are given, not generated: image to video, and the continuation of a video.
#pragma once
#include <functional>

#include <ATen/core/Tensor.h>

#include "kinora/abi/noise.h"

namespace kinora::core {

// The first frames of every latent are `clean`; the model sees them at a noise level of their own, near zero,
// one level a frame (Cosmos-Predict 2's and Wan 2.2's way), and what it says of them is not asked.
class FrameCondition {
 public:
  using Denoise = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& sigma)>;
  // clean: [1, C, K, H, W], normalised as in training. mix: the denoiser's. level: of the given frames.
  FrameCondition(at::Tensor clean, uint32_t mix, double level);

  // x [B, C, T, H, W], sigma [B] -> x0 with the given frames in place. Throws Error(KINORA_INVALID) unless K
  // < T.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& sigma, const Denoise& denoise) const;
  int64_t frames() const { return clean_.size(2); }
  // [1, 1, T, H, W] float32: 1 where a frame is given.
  at::Tensor mask(int64_t frames) const;
  const at::Tensor& clean() const { return clean_; }

 private:
  at::Tensor clean_;
  double level_;
};

}  // namespace kinora::core
