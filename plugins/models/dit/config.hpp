// Options of model/dit and model/stdit.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/options.hpp"
#include "kinora/signals.hpp"

namespace kinora::dit {

struct Config {
  std::string size;  // a preset; empty: the other options
  int64_t in_channels = 16, out_channels = 16;
  int64_t layers = 6, heads = 6, head_size = 32, kv_heads = 0;
  double mlp_ratio = 4;
  int64_t text_size = 384;
  bool cross_attention = true;
  int64_t adaln_lora = 64;
  int64_t patch_time = 1, patch_space = 2;
  std::vector<int64_t> max_size{128, 240, 240};
  std::vector<double> rope_scale{1, 1, 1};
  double base_fps = 0;
  double qk_norm_eps = 1e-6;
  bool learnable_pos_embed = false;
  std::vector<std::string> signals;

  int64_t width() const { return heads * head_size; }
  int64_t groups() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t mlp() const;
  int64_t patch() const { return patch_time * patch_space * patch_space; }
};

struct StConfig : Config {
  bool full_attention = true;
};

// The inputs, outputs and options that both models share. Options is Config or StConfig.
template <class Options>
void describe(Describe<Options>& d);

// Applies the preset, in place. Throws kinora::Error with `id` in front for combinations that the ranges of
// single options do not exclude.
void check(Config& c, const std::string& id);
std::vector<Signal> signals_of(const Config& c, const std::string& id);

}  // namespace kinora::dit
