#include "plugins/models/dit/config.hpp"

#include <cmath>

#include "kinora/denoiser_inputs.hpp"
#include "kinora/options.hpp"

namespace kinora::dit {
namespace {

struct Preset {
  const char* name;
  int64_t layers, heads, head_size, adaln_lora, kv_heads = 0;
  double mlp_ratio = 4;
};
// S to XL: Peebles and Xie 2023 (arXiv 2212.09748), table 1, and NeMo DFM. 1B, 5B, 7B and MovieGen-30B: NeMo;
// 7B has the full AdaLN (2.7B of its parameters, arXiv 2503.12964, section 4.5.1), 5B a low-rank one.
// 7B-wide and 28B: table 1 there. MovieGen-30B's MLP has the published hidden size, with GELU and without a
// gate.
constexpr Preset presets[] = {{"XS", 6, 6, 32, 64},
                              {"S", 12, 6, 64, 256},
                              {"B", 12, 12, 64, 256},
                              {"L", 24, 16, 64, 256},
                              {"XL", 28, 16, 72, 256},
                              {"1B", 16, 16, 128, 256},
                              {"5B", 32, 24, 128, 256},
                              {"7B", 32, 24, 128, 0},
                              {"7B-wide", 28, 32, 128, 256},
                              {"28B", 48, 48, 128, 256},
                              {"MovieGen-30B", 48, 48, 128, 256, 8, 16384.0 / 6144}};

template <class Options>
void describe_shape(Describe<Options>& d) {
  std::vector<std::string> names{""};
  for (const auto& p : presets) names.emplace_back(p.name);
  d.option("size", &Config::size)
      .choices(names)
      .help(
          "preset of layers, heads, head_size, kv_heads, mlp_ratio and adaln_lora, for those that have their "
          "defaults");
  d.option("in_channels", &Config::in_channels)
      .range(1, 4096)
      .help("channels of the latent, including condition_mask's if it is used");
  d.option("out_channels", &Config::out_channels).range(1, 4096).help("channels of the prediction");
  d.option("layers", &Config::layers).range(1, 1024).help("transformer blocks");
  d.option("heads", &Config::heads).range(1, 1024).help("number of attention heads");
  d.option("head_size", &Config::head_size)
      .range(12, 1024)
      .help("channels per head, even; the width is heads * head_size");
  d.option("kv_heads", &Config::kv_heads)
      .range(0, 1024)
      .help(
          "number of heads of keys and values, each shared by heads / kv_heads queries; 0: as many as heads");
  d.option("mlp_ratio", &Config::mlp_ratio).above(0).help("hidden channels of the MLP divided by the width");
  d.option("adaln_lora", &Config::adaln_lora)
      .range(0, 65536)
      .help("rank of the modulation's linear layer; 0: full");
  d.option("patch_time", &Config::patch_time).range(1, 64).help("latent frames per token");
  d.option("patch_space", &Config::patch_space).range(1, 64).help("latent rows and columns per token");
}

template <class Options>
void describe_conditions(Describe<Options>& d) {
  d.option("text_size", &Config::text_size).range(1, 65536).help("channels of the text embeddings");
  d.option("cross_attention", &Config::cross_attention).help("attention to the text; false: no text");
  d.option("signals", &Config::signals).help(kSignalsHelp);
  d.option("max_size", &Config::max_size)
      .help("largest latent, if positions are learnt: frames, rows, columns");
  d.option("rope_scale", &Config::rope_scale)
      .help("factors of RoPE's wavelengths (NTK): time, rows, columns");
  d.option("base_fps", &Config::base_fps)
      .at_least(0)
      .unit("1/s")
      .help("frame rate of the time positions; 0: positions count frames");
  d.option("qk_norm_eps", &Config::qk_norm_eps).above(0).help("epsilon of the heads' RMSNorm");
  d.option("learnable_pos_embed", &Config::learnable_pos_embed).help("learnt positions added to the tokens");
}

[[noreturn]] void refuse(const std::string& id, const std::string& what) {
  throw Error(KINORA_ERROR_INVALID, id + ": " + what);
}

}  // namespace

int64_t Config::mlp() const { return std::llround(static_cast<double>(width()) * mlp_ratio); }

template <class Options>
void describe(Describe<Options>& d) {
  describe_denoised(d);
  d.input("fps", "[B]", "float",
          "frame rate of the video, if base_fps is set (left out: base_fps) or a signal");
  describe_prediction(d);
  describe_shape(d);
  describe_conditions(d);
}
template void describe(Describe<Config>&);
template void describe(Describe<StConfig>&);

void check(Config& c, const std::string& id) {
  for (const auto& p : presets)
    if (c.size == p.name) {
      preset(c, &Config::layers, p.layers), preset(c, &Config::heads, p.heads);
      preset(c, &Config::head_size, p.head_size), preset(c, &Config::kv_heads, p.kv_heads);
      preset(c, &Config::adaln_lora, p.adaln_lora), preset(c, &Config::mlp_ratio, p.mlp_ratio);
    }
  if (c.head_size % 2)
    refuse(id, "head_size = " + std::to_string(c.head_size) + " is odd; RoPE turns pairs of channels");
  if (c.heads % c.groups())
    refuse(id, "heads = " + std::to_string(c.heads) +
                   " are not divided evenly over kv_heads = " + std::to_string(c.kv_heads));
  if (c.max_size.size() != 3) refuse(id, "max_size needs three numbers: frames, rows, columns");
  if (c.rope_scale.size() != 3) refuse(id, "rope_scale needs three numbers: time, rows, columns");
  for (double s : c.rope_scale)
    if (!(s > 0)) refuse(id, "rope_scale must be above 0");
}

std::vector<Signal> signals_of(const Config& c, const std::string& id) {
  const auto out = kinora::signals_of(
      c.signals, {"latent", "sizes", "timestep", "text", "text_mask", "condition_mask"}, id);
  for (const auto& s : out)
    if (s.tokens && !c.cross_attention)
      refuse(id, "signal '" + s.name + "' is of tokens, which need cross_attention = true");
  return out;
}

}  // namespace kinora::dit
