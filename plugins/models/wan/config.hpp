// Options of model/wan: the keys of diffusers' WanTransformer3DModel, with its defaults; and the names of
// parameters in other checkpoints.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/options.hpp"
#include "kinora/signals.hpp"

namespace kinora::wan {

struct Config {
  std::string size;  // a preset of the published numbers; empty: the other options
  std::vector<int64_t> patch_size{1, 2, 2};
  int64_t num_attention_heads = 40, attention_head_dim = 128;
  int64_t in_channels = 16, out_channels = 16;
  int64_t text_dim = 4096, freq_dim = 256, ffn_dim = 13824, num_layers = 40;
  bool cross_attn_norm = true;
  std::string qk_norm = "rms_norm_across_heads";
  double eps = 1e-6;
  int64_t image_dim = 0, added_kv_proj_dim = 0;
  int64_t rope_max_seq_len = 1024, pos_embed_seq_len = 0;
  std::vector<std::string> signals;

  int64_t width() const { return num_attention_heads * attention_head_dim; }
  int64_t patch() const { return patch_size[0] * patch_size[1] * patch_size[2]; }
};

void describe(Describe<Config>& d);
// Applies the preset. Throws kinora::Error for combinations that the ranges of single options do not exclude.
Config checked(Config c);
std::vector<Signal> signals_of(const Config& c);

// The name in diffusers, and in model/wan, of the parameter that Wan's own checkpoints name `original`. A
// name that is equal on both sides, or that is not one of Wan's, is returned unchanged. Not for names that
// are already diffusers': "blocks.N.norm2" is another norm there.
std::string diffusers_name(const std::string& original);
// The inverse.
std::string original_name(const std::string& diffusers);

// The same with the prefix "model.diffusion_model.", as in ComfyUI's files with several models; names without
// the prefix do not belong to the model: "".
std::string name_of_comfyui(const std::string& name);
std::string comfyui_name(const std::string& diffusers);
// With the prefix "model.", as in LongLive's checkpoints.
std::string name_of_longlive(const std::string& name);
std::string longlive_name(const std::string& diffusers);

// A checkpoint of Self-Forcing's or LongLive's trainer is a dictionary of dictionaries; saved as one file, its names
// are joined by dots. "generator.model.X", or "model.X" and "model.model.X" (of a key "model"), with or without the
// parts that FSDP adds to names (_fsdp_wrapped_module.), as in averages. All else is dropped, the critic included.
std::string name_of_generator(const std::string& name);
// "generator_ema.model.X", likewise.
std::string name_of_generator_ema(const std::string& name);

}  // namespace kinora::wan
