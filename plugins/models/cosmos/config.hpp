// Options of model/cosmos, and the names of its parameters in NVIDIA's checkpoints and in diffusers'.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/options.hpp"
#include "kinora/signals.hpp"

namespace kinora::cosmos {

struct Config {
  std::string size;  // a published network; empty: the other options
  int64_t in_channels = 16, out_channels = 16;
  int64_t layers = 6, heads = 6, head_size = 32;
  double mlp_ratio = 4;
  int64_t text_size = 384;
  int64_t adaln_lora = 64;
  int64_t patch_time = 1, patch_space = 2;
  std::vector<int64_t> max_size{128, 240, 240};
  std::vector<double> rope_scale{1, 1, 1};
  double base_fps = 0;
  double qk_norm_eps = 1e-5;
  bool learnable_pos_embed = false;
  bool concat_padding_mask = false;
  bool logvar = false;
  std::vector<std::string> signals;

  int64_t width() const { return heads * head_size; }
  int64_t mlp() const { return static_cast<int64_t>(static_cast<double>(width()) * mlp_ratio); }
};

void describe(Describe<Config>& d);
// Applies the preset. Throws kinora::Error for combinations that the ranges of single options do not exclude.
Config checked(Config c);
std::vector<Signal> signals_of(const Config& c);

// The generation of NVIDIA's checkpoints: cosmos-predict1 or cosmos-predict2.
enum class Release { predict1, predict2 };

// The name in diffusers and model/cosmos of the parameter that NVIDIA's checkpoint calls `original`, with or
// without the prefix `net.`. Empty: not a parameter (a buffer of RoPE, a counter, TransformerEngine's
// `_extra_state`). `logvar.` is unchanged: model/cosmos has it, diffusers does not. A name that is
// not of this release is unchanged too, so that loading reports it.
std::string diffusers_name(std::string_view original, Release release);
// The inverse, with `net.`.
std::string original_name(std::string_view diffusers, Release release);

}  // namespace kinora::cosmos
