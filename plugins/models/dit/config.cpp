#include "plugins/models/dit/config.hpp"

namespace kinora::dit {
namespace {

struct Preset {
  const char* name;
  int64_t layers, heads, head_size;
};
// S to XL: Peebles and Xie 2023 (arXiv 2212.09748), table 1. 2B, 7B, 14B: Cosmos-Predict 2 and 1.
constexpr Preset presets[] = {{"XS", 6, 6, 32},    {"S", 12, 6, 64},    {"B", 12, 12, 64},
                              {"L", 24, 16, 64},   {"XL", 28, 16, 72},  {"2B", 28, 16, 128},
                              {"7B", 28, 32, 128}, {"14B", 36, 40, 128}};

}  // namespace

void describe(Describe<Config>& d) {
  d.name("dit").help(
      "Video diffusion transformer of Cosmos: 3D patches, AdaLN-LoRA, cross-attention to text, 3D RoPE");
  d.input("latent", "[B, in_channels, T, H, W]", "float");
  d.input("timestep", "[B] or [B, T / patch_time]", "float",
          "noise level as the network takes it, one a sample or a frame");
  d.input("text", "[B, L, text_size]", "float", "zeros, or nothing at all, for the unconditional prediction");
  d.input("text_mask", "[B, L]", "bool", "true: a token that may be seen; left out: all");
  d.input("condition_mask", "[B, 1, T, H, W]", "float", "one more channel, counted in in_channels");
  d.input("padding_mask", "[B or 1, 1, any, any]", "float",
          "if concat_padding_mask; resized; left out: zeros");
  d.input("fps", "[1] or [B]", "float", "needed if base_fps is set");
  d.output("output", "[B, out_channels, T, H, W]", "float");

  std::vector<std::string> names{""};
  for (const auto& p : presets) names.emplace_back(p.name);
  d.option("size", &Config::size).choices(names).help("sets layers, heads and head_size; empty: as given");
  d.option("in_channels", &Config::in_channels)
      .range(1, 4096)
      .help("of the latent, with condition_mask's if it is used");
  d.option("out_channels", &Config::out_channels).range(1, 4096).help("of the prediction");
  d.option("layers", &Config::layers).range(1, 1024).help("transformer blocks");
  d.option("heads", &Config::heads).range(1, 1024).help("heads of every attention");
  d.option("head_size", &Config::head_size)
      .range(12, 1024)
      .help("channels a head, even; the width is heads * head_size");
  d.option("mlp_ratio", &Config::mlp_ratio).above(0).help("hidden channels of the MLP by the width");
  d.option("text_size", &Config::text_size).range(1, 65536).help("channels of the text embeddings");
  d.option("adaln_lora", &Config::adaln_lora).range(1, 65536).help("rank of the modulation's linear layers");
  d.option("patch_time", &Config::patch_time).range(1, 64).help("latent frames a token");
  d.option("patch_space", &Config::patch_space).range(1, 64).help("latent rows and columns a token");
  d.option("max_size", &Config::max_size).help("largest latent: frames, rows, columns");
  d.option("rope_scale", &Config::rope_scale).help("stretches RoPE's wavelengths (NTK): time, rows, columns");
  d.option("base_fps", &Config::base_fps)
      .at_least(0)
      .unit("1/s")
      .help("time positions count frames at this rate; 0: frames as they are");
  d.option("qk_norm_eps", &Config::qk_norm_eps)
      .above(0)
      .help("of the heads' RMSNorm; 1e-5 in diffusers, 1e-6 in NVIDIA's code");
  d.option("learnable_pos_embed", &Config::learnable_pos_embed)
      .help("adds a learnt position to each block's input (Cosmos 1)");
  d.option("concat_padding_mask", &Config::concat_padding_mask)
      .help("one more input channel: 1 where a pixel is padding");
}

Config checked(Config c) {
  for (const auto& p : presets)
    if (c.size == p.name) c.layers = p.layers, c.heads = p.heads, c.head_size = p.head_size;
  const auto refuse = [](const std::string& what) { throw Error(KINORA_INVALID, "model/dit: " + what); };
  if (c.head_size % 2)
    refuse("head_size = " + std::to_string(c.head_size) + " is odd; RoPE turns pairs of channels");
  if (c.width() % 2) refuse("the width is odd");
  if (c.max_size.size() != 3) refuse("max_size needs three numbers: frames, rows, columns");
  if (c.rope_scale.size() != 3) refuse("rope_scale needs three numbers: time, rows, columns");
  for (double s : c.rope_scale)
    if (!(s > 0)) refuse("rope_scale must be above 0");
  return c;
}

}  // namespace kinora::dit
