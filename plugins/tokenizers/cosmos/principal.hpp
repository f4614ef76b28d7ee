// An initialisation without training: the network as the best linear tokenizer of some videos, given by the
// principal components of their patches (Baldi and Hornik 1989, Neural Networks 2(1): the optimum of a linear
// autoencoder).
//
// Idea: silu(u) - silu(-u) = u, so a layer that has every number with both signs passes it through its
// activation unchanged. Two more channels have a constant, once with either sign, which is so much larger
// than the other numbers that a frame's norm divides by nearly the same number in every frame. Residual
// branches end in zeros initially.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "plugins/tokenizers/cosmos/config.hpp"

namespace kinora::cosmos {

// Parameters by name, float64; parameters that are not named keep their initial values. patches [B, t, h, w,
// D]. Throws kinora::Error if these layers cannot represent it: codes, images, a latent that is compressed
// further than its patches, fewer than 2 * latent_channels + 2 channels.
std::vector<std::pair<std::string, at::Tensor>> principal_start(const Config& c, const at::Tensor& patches);

}  // namespace kinora::cosmos
