// Computes what a tokenizer is trained on: the reconstruction error of a microbatch of videos, and a penalty
// on its latents.
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
    at::Tensor reconstruction;  // weighted sum of l1, mse and the perceptual distance
    at::Tensor all;             // reconstruction plus kl
    std::map<std::string, double> figures;
  };
  // video [B, 3, T, H, W], whose first sample has the global number `first`; all terms are multiplied by
  // `share`, the microbatch's share of the step's samples. For a discrete tokenizer the posterior's vectors
  // are decoded, which carry the gradient; with kl a latent is drawn, mean + deviation * noise, from (seed,
  // sample).
  Terms operator()(const at::Tensor& video, int64_t first, double share);

  // Decoded from the latent that later jobs use, without drawing; clamped to [-1, 1].
  at::Tensor reconstruct(const at::Tensor& video);
  // "psnr", "ssim" (if frames have 11 pixels or more) and, with a perceptual loss, "perceptual" of one video.
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
