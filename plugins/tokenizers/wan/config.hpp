// Options of tokenizer/wan with the keys of diffusers' AutoencoderKLWan, values derived from them, and
// parameters' names.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::wan {

// Throws Error(KINORA_ERROR_INVALID) in the name of this tokenizer.
[[noreturn]] void refuse(const std::string& why);

// The defaults are the published 2.1, as in diffusers.
struct Config {
  std::string size;
  int64_t base_dim = 96;
  int64_t decoder_base_dim = 0;  // 0: base_dim
  int64_t z_dim = 16;
  std::vector<int64_t> dim_mult{1, 2, 4, 4};
  int64_t num_res_blocks = 2;
  std::vector<double> attn_scales;
  std::vector<int64_t> temperal_downsample{0, 1, 1};  // diffusers' spelling
  bool is_residual = false;
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t patch_size = 1;
  int64_t scale_factor_spatial = 8;
  int64_t scale_factor_temporal = 4;
  std::vector<double> latents_mean{-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
                                   0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
  std::vector<double> latents_std{2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
                                  3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160};
  bool normalise = true;
  bool clamp = false;
  int64_t tile_height = 0, tile_width = 0, tile_stride_height = 0, tile_stride_width = 0;
  int64_t tile_frames = 0, tile_stride_frames = 0;

  int64_t levels() const { return static_cast<int64_t>(dim_mult.size()); }
  // Pixels per latent row or column, frames per latent frame, computed from the levels; scale_factor_* is
  // ignored.
  int64_t space() const { return patch_size << (levels() - 1); }
  int64_t time() const;
  bool time_at(int64_t level) const { return temperal_downsample[static_cast<size_t>(level)] != 0; }
  int64_t dim(int64_t base, int64_t level) const { return base * dim_mult[static_cast<size_t>(level)]; }
  bool tiles_space() const { return tile_height > 0; }
};

// Fills in `size` and decoder_base_dim. Throws kinora::Error if the options contradict each other.
Config resolved(Config c);

// Largest number of latent frames that a decoded one depends on, itself included.
int64_t decoder_span(const Config& c);
// Largest number of latent frames that an encoded one depends on, itself included.
int64_t encoder_span(const Config& c);

// Converts names of the original Wan VAE checkpoints (Wan-Video/Wan2.2, wan/modules/vae2_1.py and vae2_2.py)
// to those of diffusers. "encoder.downsamples.0.residual.2.weight" -> "encoder.down_blocks.0.conv1.weight",
// for both families. Other names are returned unchanged.
std::string diffusers_name(const std::string& original);

}  // namespace kinora::wan
