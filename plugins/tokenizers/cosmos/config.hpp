// Options of tokenizer/cosmos, the plan of its levels in the terms of diffusers' AutoencoderKLCosmos, and its
// parameters' names.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/renames.hpp"

namespace kinora::cosmos {

// The defaults train on two CPU cores in a minute or two. The published CV8x8x8 is latent 16, encoder 128 256
// 512 512, decoder 256 512 512 512, two layers, both ratios 8.
struct Config {
  std::string size;  // a published layout, see published()
  bool image = false;
  std::string formulation = "AE";
  std::vector<int64_t> levels{8, 8, 8, 5, 5, 5};
  int64_t embedding_dim = 6;
  int64_t latent_channels = 8;
  std::vector<int64_t> encoder_block_out_channels{32, 64, 64};
  std::vector<int64_t> decode_block_out_channels{32, 64, 64};
  std::vector<int64_t> attention_resolutions{32};
  int64_t resolution = 1024;
  int64_t num_layers = 1;
  int64_t patch_size = 4;
  std::string patch_type = "haar";
  int64_t spatial_compression_ratio = 8;
  int64_t temporal_compression_ratio = 4;
  // Latents are (z - mean) / std, per channel, or per channel and latent frame; empty: z.
  std::vector<double> latents_mean, latents_std;

  bool discrete() const { return formulation == "FSQ"; }
  // Channels between the two 1x1x1 convolutions: those of the latent, or the size of a code's vector.
  int64_t code_channels() const { return discrete() ? embedding_dim : latent_channels; }
};

// The names of the published layouts: continuous and discrete, video and image, by their compression.
const std::vector<std::string>& published_sizes();
// c itself, or the layout called c.size (NVIDIA's Cosmos-Tokenizer, networks/configs.py). For an image
// the temporal ratio is 1. Throws kinora::Error for contradictory options.
Config resolved(Config c);

// One down (encoder) or up (decoder) block: residual blocks from `in` to `out` channels, then a change of
// resolution.
struct Level {
  int64_t in, out;
  bool attention;
  bool resample;  // the block ends in a resampler, which may leave the resolution unchanged
  bool space, time;
};

// Throws kinora::Error if the compression ratios cannot be reached with these blocks.
std::vector<Level> encoder_levels(const Config& c);
std::vector<Level> decoder_levels(const Config& c);

// The names in NVIDIA's Cosmos-Tokenizer (its encoder.jit, decoder.jit and autoencoder.jit) and those of
// diffusers' layout, which are ours; only for Renames::ours(), since a convolution's wrapper has no name in
// diffusers. up_blocks: number in the decoder, which counts them from the other end.
//   encoder.down.0.block.1.conv1.0.conv3d.weight -> encoder.down_blocks.0.resnets.1.conv1.conv_s.weight
Renames names(int64_t up_blocks);

}  // namespace kinora::cosmos
