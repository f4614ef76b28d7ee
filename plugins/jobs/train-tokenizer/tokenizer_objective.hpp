// The objective that a tokenizer is trained on: the reconstruction error of a microbatch of videos, a penalty on its
// latents, and the adversarial loss, whose critic is in tokenizer_critic.hpp. The losses are pure functions;
// those of half-precision tensors are computed in float32.
#pragma once
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "core/torch/network/instances.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "plugins/jobs/train-tokenizer/train_tokenizer_options.hpp"

namespace kinora::core {

// Hinge losses on logits of any shape (Lim and Ye 2017, arXiv 1705.02894), means over the elements. The
// critic's: (mean max(0, 1 - real) + mean max(0, 1 + fake)) / 2; the caller must cut the gradient of `fake`
// to the tokenizer (detach it before the critic). The tokenizer's: - mean fake.
at::Tensor hinge_critic(const at::Tensor& real, const at::Tensor& fake);
at::Tensor hinge_generator(const at::Tensor& fake);

// Weight of the adversarial loss: || d reconstruction / d last || / (|| d adversarial / d last || + 1e-4), at
// most `most`, where last is the decoder's last layer (Esser et al. 2021, arXiv 2012.09841, equation 7, with
// the authors' constants). The arguments are those two gradients. Scalar, without gradient.
at::Tensor adaptive_weight(const at::Tensor& of_reconstruction, const at::Tensor& of_adversarial,
                           double most = 1e4);

// KL(N(mean, exp(logvar)) || N(0, 1)) of the moments [B, 2 C, ...] of a variational encoder (Kingma and
// Welling 2014, appendix B): the sum over C and the other dimensions, one number per sample. logvar is
// clamped to [-30, 20].
at::Tensor kl_to_standard_normal(const at::Tensor& moments);

// Mean over all dimensions but the first.
at::Tensor l1_per_sample(const at::Tensor& a, const at::Tensor& b);
at::Tensor mse_per_sample(const at::Tensor& a, const at::Tensor& b);

class TokenizerObjective {
 public:
  // The loss in the slot `perceptual`, if there is one. Throws Error(KINORA_ERROR_INVALID) if it does not
  // compare two videos.
  TokenizerObjective(const JobView&, Tokenizer& tokenizer, const TrainTokenizerOptions&);

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
  // The perceptual loss of one video and its reconstruction; nothing without such a loss.
  std::optional<double> perceptual(const at::Tensor& made, const at::Tensor& video) const;

 private:
  at::Tensor latent(const at::Tensor& video, int64_t first, at::Tensor& divergence);
  at::Tensor distance(const at::Tensor& made, const at::Tensor& video) const;  // [B]
  const std::string& id_;
  Tokenizer& network_;
  TrainTokenizerOptions options_;
  uint64_t seed_;
  bool discrete_;
  std::optional<LossInstance> perceptual_;
};

}  // namespace kinora::core
