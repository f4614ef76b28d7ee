// What a tokenizer is trained on: how well a microbatch of videos comes back, and what its latents are.
#pragma once
#include <optional>

#include "plugins/jobs/training/options/training.hpp"
#include "core/torch/context/instances.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

class TokenizerObjective {
 public:
  // The loss in the slot `perceptual`, if there is one. Throws Error(KINORA_INVALID) if it does not compare
  // two videos.
  TokenizerObjective(const JobView&, Network& tokenizer, const TrainTokenizerOptions&);

  struct Terms {
    at::Tensor made;            // the reconstruction
    at::Tensor reconstruction;  // weighed sum of l1, mse and the perceptual distance
    at::Tensor all;             // and kl
    std::map<std::string, double> figures;
  };
  // video [B, 3, T, H, W], whose first sample has the global number `first`; all terms are times `share`, the
  // microbatch's of the step's samples. Of a discrete tokenizer the posterior's vectors are decoded, which
  // carry the gradient; with kl a latent is drawn, mean + deviation * noise, by (seed, sample).
  Terms operator()(const at::Tensor& video, int64_t first, double share);

  // Decoded from the latent as later jobs have it, without drawing; clamped to [-1, 1].
  at::Tensor reconstruct(const at::Tensor& video);
  // "psnr", "ssim" (of frames of 11 pixels or more) and, with a perceptual loss, "perceptual" of one video.
  std::map<std::string, double> quality(const at::Tensor& made, const at::Tensor& video);

 private:
  at::Tensor latent(const at::Tensor& video, int64_t first, at::Tensor& divergence);
  at::Tensor distance(const at::Tensor& made, const at::Tensor& video) const;  // [B]
  const std::string& id_;
  Network& network_;
  TrainTokenizerOptions options_;
  uint64_t seed_;
  bool discrete_;
  std::optional<LossInstance> perceptual_;
};

}  // namespace kinora::core
