// Options of tokenizer/cosmos and the plan of its levels, in the terms of diffusers' AutoencoderKLCosmos.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::cosmos {

// The defaults train on two CPU cores in a minute or two. The published CV8x8x8 is latent 16, encoder 128 256
// 512 512, decoder 256 512 512 512, two layers, both ratios 8.
struct Config {
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
};

// One down (encoder) or up (decoder) block: residual blocks from `in` to `out` channels, then a change of
// resolution.
struct Level {
  int64_t in, out;
  bool attention;
  bool resample;  // the block ends in a resampler, which may still change nothing
  bool space, time;
};

// Throws kinora::Error if the compression ratios cannot be reached with these blocks.
std::vector<Level> encoder_levels(const Config& c);
std::vector<Level> decoder_levels(const Config& c);

}  // namespace kinora::cosmos
