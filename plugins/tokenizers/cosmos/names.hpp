// The parameters' names in NVIDIA's Cosmos-Tokenizer (its encoder.jit, decoder.jit and autoencoder.jit).
#pragma once
#include <cstdint>
#include <string>

namespace kinora::cosmos {

// The name in diffusers' layout, which is ours, of a parameter of Cosmos-Tokenizer. up_blocks: number in the
// decoder, which counts them from the other end. A name that is not of that layout is returned unchanged.
//   encoder.down.0.block.1.conv1.0.conv3d.weight -> encoder.down_blocks.0.resnets.1.conv1.conv_s.weight
std::string diffusers_name(const std::string& original, int64_t up_blocks);

}  // namespace kinora::cosmos
