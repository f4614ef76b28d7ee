#include "plugins/models/wan/config.hpp"

#include "kinora/options.hpp"
#include "kinora/renames.hpp"

namespace kinora::wan {
namespace {

struct Preset {
  const char* name;
  int64_t heads, ffn, layers, in, out, image, added;
};
// The config.json of Wan-AI's folders: Wan 2.1 T2V-1.3B, T2V-14B and I2V-14B, Wan 2.2 TI2V-5B.
constexpr Preset presets[] = {{"1.3B", 12, 8960, 30, 16, 16, 0, 0},
                              {"5B", 24, 14336, 30, 48, 48, 0, 0},
                              {"14B", 40, 13824, 40, 16, 16, 0, 0},
                              {"I2V-14B", 40, 13824, 40, 36, 16, 1280, 5120}};

void describe_inputs(Describe<Config>& d) {
  d.input("latent", "[B, in_channels, T, H, W]", "float",
          "noised latent without the channels of `condition`, if that is given; or a packed row [1, "
          "in_channels, N] with `sizes`");
  d.input("sizes", "[n, 3]", "int64",
          "T, H and W of each of n consecutive videos in a packed row, N numbers per channel; all other "
          "inputs then have n for B, and all frames or all tokens for [B, F, ...]");
  d.input(
      "timestep", "[B] or [B, F] or [B, F * h * w]", "float",
      "noise level in thousandths: one per sample, frame or token (F, h, w: T, H, W divided by patch_size)");
  d.input("text", "[B, L, text_dim]", "float", "text embeddings; zeros, or left out, for no text");
  d.input("text_mask", "[B, L]", "bool",
          "true for tokens that may be seen; left out: all, as published, where padding is visible zeros");
  d.input("image", "[B, Li, image_dim]", "float",
          "CLIP's tokens of the first frame, or of the first and the last (pos_embed_seq_len)");
  d.input("condition", "[B, C, T, H, W]", "float",
          "additional channels after the latent's: I2V's mask and video");
  d.input("camera", "[B, channels] or [B, F, channels] or [B, F * h * w, channels]", "float",
          "a signal, like any other name of `signals`; left out: nothing is added");
  d.output("output", "[B, out_channels, T, H, W]", "float",
           "velocity: noise - latent; or [1, out_channels, N], like the latent");
}

constexpr std::string_view kComfyUi = "model.diffusion_model.", kLongLive = "model.";

Renames made() {
  const Renames attention{{"q", "to_q"},
                          {"k", "to_k"},
                          {"v", "to_v"},
                          {"o", "to_out.0"},
                          {"k_img", "add_k_proj"},
                          {"v_img", "add_v_proj"},
                          {"norm_k_img", "norm_added_k"},
                          {"", ""}};
  return Renames{
      {"time_embedding.0", "condition_embedder.time_embedder.linear_1"},
      {"time_embedding.2", "condition_embedder.time_embedder.linear_2"},
      {"time_projection.1", "condition_embedder.time_proj"},
      {"text_embedding.0", "condition_embedder.text_embedder.linear_1"},
      {"text_embedding.2", "condition_embedder.text_embedder.linear_2"},
      {"img_emb.proj.0", "condition_embedder.image_embedder.norm1"},
      {"img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"},
      {"img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"},
      {"img_emb.proj.4", "condition_embedder.image_embedder.norm2"},
      {"img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"},
      {"head.modulation", "scale_shift_table"},
      {"head.head", "proj_out"},
      {"blocks.*.modulation", "blocks.*.scale_shift_table"},
      // Wan numbers a block's norms by their order in the code, diffusers by their order in the block.
      {"blocks.*.norm2", "blocks.*.norm3"},
      {"blocks.*.norm3", "blocks.*.norm2"},
      {"blocks.*.ffn.0", "blocks.*.ffn.net.0.proj"},
      {"blocks.*.ffn.2", "blocks.*.ffn.net.2"}}
      .under("blocks.*.self_attn", "blocks.*.attn1", attention)
      .under("blocks.*.cross_attn", "blocks.*.attn2", attention);
}

const Renames& names() {
  static const Renames all = made();
  return all;
}

}  // namespace

void describe(Describe<Config>& d) {
  d.name("wan").help("Video diffusion transformer of Wan 2.1 and 2.2: T2V, I2V, FLF2V and TI2V");
  describe_inputs(d);
  d.layout("original", "Wan-AI's own checkpoints", diffusers_name, original_name);
  d.layout("comfyui", "the same with the prefix model.diffusion_model.", name_of_comfyui, comfyui_name);
  d.layout("longlive", "the same with the prefix model., as in LongLive's checkpoints", name_of_longlive,
           longlive_name);
  d.layout("self-forcing", "the generator of whole checkpoints of Self-Forcing and LongLive; only read",
           name_of_generator);
  d.layout("self-forcing-ema", "their average of the generator's weights (generator_ema); only read",
           name_of_generator_ema);
  std::vector<std::string> names{""};
  for (const auto& p : presets) names.emplace_back(p.name);
  d.option("size", &Config::size)
      .choices(names)
      .help(
          "preset of the published heads, ffn_dim, num_layers, channels and image sizes, for those that have "
          "their defaults; jobs need in_channels = 36 for I2V-14B, and 48 for 5B");
  d.option("patch_size", &Config::patch_size).help("latent frames, rows and columns per token");
  d.option("num_attention_heads", &Config::num_attention_heads)
      .range(1, 1024)
      .help("number of attention heads");
  d.option("attention_head_dim", &Config::attention_head_dim)
      .range(6, 1024)
      .help("channels per head, even; the width is num_attention_heads * attention_head_dim");
  d.option("in_channels", &Config::in_channels)
      .range(1, 4096)
      .help("channels of the latent, including condition's");
  d.option("out_channels", &Config::out_channels)
      .range(0, 4096)
      .help("channels of the prediction; 0: as many as in_channels");
  d.option("text_dim", &Config::text_dim).range(1, 65536).help("channels of the text embeddings (UMT5)");
  d.option("freq_dim", &Config::freq_dim)
      .range(2, 65536)
      .help("size of the timestep's sinusoidal embedding, even");
  d.option("ffn_dim", &Config::ffn_dim).range(1, 1 << 20).help("hidden channels of the MLP");
  d.option("num_layers", &Config::num_layers).range(1, 1024).help("transformer blocks");
  d.option("cross_attn_norm", &Config::cross_attn_norm).help("learnt layer norm before cross-attention");
  d.option("qk_norm", &Config::qk_norm)
      .choices({"rms_norm_across_heads", ""})
      .help("norm of queries and keys, over all heads together; empty: none");
  d.option("eps", &Config::eps).above(0).help("epsilon of the norms");
  d.option("image_dim", &Config::image_dim)
      .range(0, 65536)
      .help("channels of the image's tokens; 0: no image embedder");
  d.option("added_kv_proj_dim", &Config::added_kv_proj_dim)
      .range(0, 1 << 20)
      .help("the width: the image has its own keys and values (I2V 2.1); 0: its tokens precede the text's");
  d.option("rope_max_seq_len", &Config::rope_max_seq_len)
      .range(1, 1 << 20)
      .help("length of diffusers' table of positions; angles are computed here, for any position");
  d.option("pos_embed_seq_len", &Config::pos_embed_seq_len)
      .range(0, 65536)
      .help("number of image tokens with a learnt position (FLF2V: 514); 0: none");
  d.option("signals", &Config::signals).help(kSignalsHelp);
}

Config checked(Config c) {
  for (const auto& p : presets) {
    if (c.size != p.name) continue;
    preset(c, &Config::num_attention_heads, p.heads), preset(c, &Config::attention_head_dim, 128);
    preset(c, &Config::ffn_dim, p.ffn), preset(c, &Config::num_layers, p.layers);
    preset(c, &Config::in_channels, p.in), preset(c, &Config::out_channels, p.out);
    preset(c, &Config::image_dim, p.image), preset(c, &Config::added_kv_proj_dim, p.added);
  }
  if (c.out_channels == 0) c.out_channels = c.in_channels;
  const auto refuse = [](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, "model/wan: " + what);
  };
  if (c.patch_size.size() != 3) refuse("patch_size needs three numbers: frames, rows, columns");
  for (const int64_t p : c.patch_size)
    if (p < 1) refuse("patch_size must be at least 1");
  if (c.attention_head_dim % 2)
    refuse("attention_head_dim = " + std::to_string(c.attention_head_dim) +
           " is odd; RoPE turns pairs of channels");
  if (c.freq_dim % 2) refuse("freq_dim = " + std::to_string(c.freq_dim) + " is odd; waves come in pairs");
  if (c.added_kv_proj_dim != 0 && c.added_kv_proj_dim != c.width())
    refuse("added_kv_proj_dim = " + std::to_string(c.added_kv_proj_dim) +
           " is not the width that the image is embedded in, " + std::to_string(c.width()));
  if (c.image_dim == 0 && (c.added_kv_proj_dim != 0 || c.pos_embed_seq_len != 0))
    refuse("added_kv_proj_dim and pos_embed_seq_len belong to an image; set image_dim");
  return c;
}

std::vector<Signal> signals_of(const Config& c) {
  return kinora::signals_of(
      c.signals, {"latent", "sizes", "timestep", "text", "text_mask", "image", "condition"}, "model/wan");
}

std::string diffusers_name(const std::string& original) { return names().ours(original); }
std::string original_name(const std::string& diffusers) { return names().theirs(diffusers); }

namespace {

std::string unwrapped(std::string_view prefix, const std::string& name) {
  return name.starts_with(prefix) ? diffusers_name(name.substr(prefix.size())) : "";
}
std::string wrapped(std::string_view prefix, const std::string& diffusers) {
  return std::string(prefix) + original_name(diffusers);
}

// Without the parts that FSDP, recomputation and torch.compile add to names.
std::string without_wrappers(std::string name) {
  for (const std::string_view part : {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."})
    for (size_t at = 0; (at = name.find(part, at)) != name.npos;) name.erase(at, part.size());
  return name;
}

}  // namespace

std::string name_of_comfyui(const std::string& name) { return unwrapped(kComfyUi, name); }
std::string comfyui_name(const std::string& diffusers) { return wrapped(kComfyUi, diffusers); }
std::string name_of_longlive(const std::string& name) { return unwrapped(kLongLive, name); }
std::string longlive_name(const std::string& diffusers) { return wrapped(kLongLive, diffusers); }

std::string name_of_generator(const std::string& name) {
  std::string rest = without_wrappers(name);
  for (const std::string_view whole : {"generator.", "model.model."})
    if (rest.starts_with(whole)) {
      rest.erase(0, whole.find('.') + 1);
      break;
    }
  return unwrapped(kLongLive, rest);
}
std::string name_of_generator_ema(const std::string& name) {
  return unwrapped("generator_ema.model.", without_wrappers(name));
}

}  // namespace kinora::wan
