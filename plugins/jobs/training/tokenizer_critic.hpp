// The critic of a tokenizer's adversarial tuning: a separate model with its own optimizer, trained together with
// the tokenizer by the hinge loss (VQGAN, Esser et al. 2021, arXiv 2012.09841, section 3.1).
#pragma once
#include <map>
#include <string>

#include "core/torch/context/network.hpp"
#include "core/torch/context/parallelism.hpp"
#include "plugins/jobs/training/optimizer.hpp"
#include "plugins/jobs/training/options/training.hpp"

namespace kinora::core {

class TokenizerCritic {
 public:
  // From the slot `critic`. Throws Error(KINORA_ERROR_INVALID) if options.last_layer is not a parameter that
  // this process holds whole.
  TokenizerCritic(JobContext&, Network& tokenizer, Parallelism&, const TrainTokenizerOptions&,
                  at::Device device = at::kCPU);

  // The critic's part of a microbatch's tokenizer loss: critic_weight times the adaptive weight, computed
  // from the gradients of `reconstruction` and of this loss at the decoder's last layer, times -mean
  // critic(made). Also adds the gradients of the critic's own loss on the same videos [B, 3, T, H, W] to the
  // critic. share: the microbatch's share of the step's samples.
  at::Tensor adversarial(const at::Tensor& video, const at::Tensor& made, const at::Tensor& reconstruction,
                         double share, std::map<std::string, double>& figures);
  // One update by the gradients of the step, on every rank; a gradient that is not finite is dropped.
  void update(nlohmann::json& line);

  // Weights, optimizer states and steps by name: copies for a checkpoint, and the way back.
  NamedTensors state();
  void restore(NamedTensors state);

 private:
  at::Tensor logits(const at::Tensor& video) { return network_.forward({{"video", video}})[0]; }
  TrainTokenizerOptions options_;
  Parallelism& parallel_;
  Network network_;
  Optimizer optimizer_;
  at::Tensor last_;  // of the tokenizer's decoder
};

// The leaf of that name; for an empty name, the last parameter of two or more dimensions with "conv_out" in
// its name, since a decoder is declared after the encoder. Throws Error(KINORA_ERROR_INVALID).
const Leaf& last_layer(const Chain& chain, const std::string& name);

}  // namespace kinora::core
