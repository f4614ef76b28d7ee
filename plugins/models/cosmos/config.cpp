#include "plugins/models/cosmos/config.hpp"

#include "kinora/denoiser_inputs.hpp"
#include "kinora/options.hpp"
#include "kinora/renames.hpp"

namespace kinora::cosmos {
namespace {

struct Preset {
  const char* name;
  int64_t layers, heads;
  std::vector<double> rope_scale;
  double base_fps;
  bool learnable_pos_embed;
};
// The networks of cosmos-predict1 (arXiv 2501.03575, table 10) and of cosmos-predict2's video2world. Values
// that they share are in apply().
const Preset presets[] = {{"predict1-7B", 28, 32, {2, 1, 1}, 24, true},
                          {"predict1-14B", 36, 40, {2, 2, 2}, 24, true},
                          {"predict2-2B", 28, 16, {1, 3, 3}, 0, false},
                          {"predict2-14B", 36, 40, {20.0 / 24, 2, 2}, 0, false}};

void apply(const Preset& p, Config& c) {
  preset(c, &Config::layers, p.layers);
  preset(c, &Config::heads, p.heads);
  preset(c, &Config::rope_scale, p.rope_scale);
  preset(c, &Config::base_fps, p.base_fps);
  preset(c, &Config::learnable_pos_embed, p.learnable_pos_embed);
  preset(c, &Config::head_size, 128);
  preset(c, &Config::mlp_ratio, 4);
  preset(c, &Config::text_size, 1024);
  preset(c, &Config::adaln_lora, 256);
  preset(c, &Config::patch_time, 1);
  preset(c, &Config::patch_space, 2);
  preset(c, &Config::concat_padding_mask, true);
}

void describe_tensors(Describe<Config>& d) {
  describe_denoised(d);
  d.input("padding_mask", "[B or 1, 1, any, any]", "float",
          "mask of padding, read if concat_padding_mask is set, and resized; left out: zeros");
  d.input("fps", "[1] or [B]", "float",
          "frame rate of the video, if base_fps is set (left out: base_fps) or a signal");
  describe_prediction(d);
  d.output("logvar", "[B] or [B, F] or [B, F * h * w]", "float",
           "the loss's log-variance at the timestep, if the option is set");
}

void describe_layouts(Describe<Config>& d) {
  d.layout(
      "predict1", "NVIDIA's cosmos-predict1 checkpoints",
      [](const std::string& name) { return diffusers_name(name, Release::predict1); },
      [](const std::string& name) { return original_name(name, Release::predict1); });
  d.layout(
      "predict2", "NVIDIA's cosmos-predict2 checkpoints",
      [](const std::string& name) { return diffusers_name(name, Release::predict2); },
      [](const std::string& name) { return original_name(name, Release::predict2); });
}

void describe_size(Describe<Config>& d) {
  std::vector<std::string> names{""};
  for (const auto& p : presets) names.emplace_back(p.name);
  d.option("size", &Config::size)
      .choices(names)
      .help(
          "preset of a published network, for all options that have their defaults, except in_channels, "
          "out_channels, max_size, qk_norm_eps and signals");
  d.option("in_channels", &Config::in_channels)
      .range(1, 4096)
      .help(
          "channels of the latent, including condition_mask's if it is used: 16 text2world, 17 video2world");
  d.option("out_channels", &Config::out_channels).range(1, 4096).help("channels of the prediction");
  d.option("layers", &Config::layers).range(1, 1024).help("transformer blocks").config({"num_layers"});
  d.option("heads", &Config::heads)
      .range(1, 1024)
      .help("number of attention heads")
      .config({"num_attention_heads"});
  d.option("head_size", &Config::head_size)
      .range(12, 1024)
      .help("channels per head, even; the width is heads * head_size")
      .config({"attention_head_dim"});
  d.option("mlp_ratio", &Config::mlp_ratio).above(0).help("hidden channels of the MLP divided by the width");
  d.option("text_size", &Config::text_size)
      .range(1, 65536)
      .help("channels of the text embeddings")
      .config({"text_embed_dim"});
  d.option("adaln_lora", &Config::adaln_lora)
      .range(1, 65536)
      .help("rank of the modulation's linear layers")
      .config({"adaln_lora_dim"});
  d.option("patch_time", &Config::patch_time)
      .range(1, 64)
      .help("latent frames per token")
      .config({"patch_size[0]"});
  d.option("patch_space", &Config::patch_space)
      .range(1, 64)
      .help("latent rows and columns per token")
      .config({"patch_size[1]"});
}

void describe_details(Describe<Config>& d) {
  d.option("max_size", &Config::max_size).help("largest latent: frames, rows, columns");
  d.option("rope_scale", &Config::rope_scale)
      .help("factors of RoPE's wavelengths (NTK): time, rows, columns");
  d.option("base_fps", &Config::base_fps)
      .at_least(0)
      .unit("1/s")
      .help("frame rate of the time positions; 0: positions count frames")
      .config({"base_fps ?? 24"});
  d.option("qk_norm_eps", &Config::qk_norm_eps)
      .above(0)
      .help("epsilon of the heads' RMSNorm; 1e-5 in diffusers, 1e-6 in NVIDIA's code");
  d.option("learnable_pos_embed", &Config::learnable_pos_embed)
      .help("learnt positions added to each block's input (Cosmos 1)")
      .config({"extra_pos_embed_type == learnable"});
  d.option("concat_padding_mask", &Config::concat_padding_mask)
      .help("an additional input channel: 1 where a pixel is padding");
  d.option("logvar", &Config::logvar)
      .help(
          "learnt uncertainty of the loss as a function of the timestep (EDM2, arXiv 2312.02696, section "
          "2.1)");
  d.option("signals", &Config::signals).help(kSignalsHelp);
}

// Equal in both releases.
Renames outside() {
  return {{"x_embedder.proj.1", "patch_embed.proj"},
          {"t_embedder.1", "time_embed.t_embedder"},
          {"extra_pos_embedder", "learnable_pos_embed"},
          {"final_layer.linear", "proj_out"}};
}

// networks/general_dit.py
Renames of_predict1() {
  Renames inside;
  for (const std::string part : {"0", "1", "2"}) {
    const std::string number = std::to_string(std::stoi(part) + 1);
    inside.under(part + ".adaLN_modulation", "norm" + number, {{"1", "linear_1"}, {"2", "linear_2"}});
    if (part != "2")
      inside.under(part + ".block.attn", "attn" + number,
                   {{"to_q.0", "to_q"},
                    {"to_q.1", "norm_q"},
                    {"to_k.0", "to_k"},
                    {"to_k.1", "norm_k"},
                    {"to_v.0", "to_v"},
                    {"to_out.0", "to_out.0"}});
  }
  inside.under("2.block", "ff.net", {{"layer1", "0.proj"}, {"layer2", "2"}});
  return Renames{{"affline_norm", "time_embed.norm"},
                 {"final_layer.adaLN_modulation.1", "norm_out.linear_1"},
                 {"final_layer.adaLN_modulation.2", "norm_out.linear_2"}}
      .under("", "", outside())
      .under("blocks.block*.blocks", "transformer_blocks.*", inside);
}

// models/text2image_dit.py
Renames of_predict2() {
  const Renames modulation{{"1", "linear_1"}, {"2", "linear_2"}};
  const Renames attention{{"q_proj", "to_q"},   {"q_norm", "norm_q"}, {"k_proj", "to_k"},
                          {"k_norm", "norm_k"}, {"v_proj", "to_v"},   {"output_proj", "to_out.0"}};
  const Renames inside = Renames{{"mlp.layer1", "ff.net.0.proj"}, {"mlp.layer2", "ff.net.2"}}
                             .under("adaln_modulation_self_attn", "norm1", modulation)
                             .under("adaln_modulation_cross_attn", "norm2", modulation)
                             .under("adaln_modulation_mlp", "norm3", modulation)
                             .under("self_attn", "attn1", attention)
                             .under("cross_attn", "attn2", attention);
  return Renames{{"t_embedding_norm", "time_embed.norm"},
                 {"final_layer.adaln_modulation.1", "norm_out.linear_1"},
                 {"final_layer.adaln_modulation.2", "norm_out.linear_2"}}
      .under("", "", outside())
      .under("blocks.*", "transformer_blocks.*", inside);
}

const Renames& names(Release release) {
  static const Renames predict1 = of_predict1(), predict2 = of_predict2();
  return release == Release::predict1 ? predict1 : predict2;
}

bool no_parameter(std::string_view name) {
  return name.find("_extra_state") != name.npos || name.starts_with("pos_embedder.") ||
         name.starts_with("accum_");
}

}  // namespace

void describe(Describe<Config>& d) {
  d.name("cosmos").help(
      "Video diffusion transformer of Cosmos: 3D patches, AdaLN-LoRA, cross-attention to text, 3D RoPE");
  describe_tensors(d);
  describe_layouts(d);
  describe_size(d);
  describe_details(d);
}

Config checked(Config c) {
  for (const auto& p : presets)
    if (c.size == p.name) apply(p, c);
  const auto refuse = [](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, "model/cosmos: " + what);
  };
  if (c.head_size % 2)
    refuse("head_size = " + std::to_string(c.head_size) + " is odd; RoPE turns pairs of channels");
  if (c.width() % 2) refuse("the width is odd");
  if (c.max_size.size() != 3) refuse("max_size needs three numbers: frames, rows, columns");
  if (c.rope_scale.size() != 3) refuse("rope_scale needs three numbers: time, rows, columns");
  for (double s : c.rope_scale)
    if (!(s > 0)) refuse("rope_scale must be above 0");
  return c;
}

std::vector<Signal> signals_of(const Config& c) {
  return kinora::signals_of(
      c.signals, {"latent", "sizes", "timestep", "text", "text_mask", "condition_mask", "padding_mask"},
      "model/cosmos");
}

std::string diffusers_name(std::string_view original, Release release) {
  if (original.starts_with("net.")) original.remove_prefix(4);
  return no_parameter(original) ? "" : names(release).ours(original);
}

std::string original_name(std::string_view diffusers, Release release) {
  return "net." + names(release).theirs(diffusers);
}

}  // namespace kinora::cosmos
