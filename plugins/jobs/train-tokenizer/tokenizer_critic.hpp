// The critic of a tokenizer's adversarial tuning: a model that is trained together with the tokenizer, by
// the hinge loss (VQGAN, Esser et al. 2021, arXiv 2012.09841, section 3.1).
#pragma once
#include <map>
#include <string>

#include "core/torch/network/model.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/train-tokenizer/train_tokenizer_options.hpp"
#include "plugins/jobs/training/trained.hpp"

namespace kinora::core {

class TokenizerCritic {
 public:
  // From the slot `critic`. Throws Error(KINORA_ERROR_INVALID) if options.last_layer is not a parameter that
  // this process holds whole.
  TokenizerCritic(JobContext&, Tokenizer& tokenizer, Parallelism&, const TrainTokenizerOptions&,
                  at::Device device = at::kCPU);

  // The critic's part of a microbatch's tokenizer loss: critic_weight times the adaptive weight, computed
  // from the gradients of `reconstruction` and of this loss at the decoder's last layer, times -mean
  // critic(made). video, made: [B, 3, T, H, W]. share: the microbatch's share of the step's samples.
  at::Tensor adversarial(const at::Tensor& video, const at::Tensor& made, const at::Tensor& reconstruction,
                         double share, std::map<std::string, double>& figures);
  // The critic's own loss on the same videos.
  at::Tensor loss(double share);
  Trained& trained() { return trained_; }

 private:
  at::Tensor logits(const at::Tensor& video) { return network_.forward({{"video", video}})[0]; }
  TrainTokenizerOptions options_;
  Parallelism& parallel_;
  Model network_;
  Trained trained_;
  at::Tensor last_;         // of the tokenizer's decoder
  at::Tensor real_, made_;  // of the microbatch
};

// The leaf of that name; for an empty name, the last parameter of two or more dimensions with "conv_out" in
// its name, since a decoder is declared after the encoder. Throws Error(KINORA_ERROR_INVALID).
const Leaf& last_layer(const Chain& chain, const std::string& name);

}  // namespace kinora::core
