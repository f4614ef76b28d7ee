// The parameters' names in NVIDIA's Cosmos-Tokenizer (its encoder.jit, decoder.jit and autoencoder.jit).
#pragma once
#include <cstdint>

#include "kinora/renames.hpp"

namespace kinora::cosmos {

// Cosmos-Tokenizer's names and those of diffusers' layout, which are ours; only for Renames::ours(), since a
// convolution's wrapper has no name in diffusers. up_blocks: number in the decoder, which counts them from
// the other end.
//   encoder.down.0.block.1.conv1.0.conv3d.weight -> encoder.down_blocks.0.resnets.1.conv1.conv_s.weight
Renames names(int64_t up_blocks);

}  // namespace kinora::cosmos
