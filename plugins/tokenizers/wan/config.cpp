#include "plugins/tokenizers/wan/config.hpp"

#include <algorithm>

#include "kinora/error.hpp"
#include "kinora/renames.hpp"

namespace kinora::wan {

void refuse(const std::string& why) { throw Error(KINORA_ERROR_INVALID, "tokenizer/wan: " + why); }

namespace {

// Wan-AI/Wan2.2-TI2V-5B, vae/config.json.
Config wan22() {
  Config c;
  c.base_dim = 160;
  c.decoder_base_dim = 256;
  c.z_dim = 48;
  c.is_residual = true;
  c.in_channels = c.out_channels = 12;
  c.patch_size = 2;
  c.scale_factor_spatial = 16;
  c.latents_mean = {-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174,  0.1838,  0.1557,  -0.1382, 0.0542,
                    0.2813,  0.0891,  0.1570,  -0.0098, 0.0375,  -0.1825, -0.2246, -0.1207, -0.0698, 0.5109,
                    0.2665,  -0.2108, -0.2158, 0.2502,  -0.2055, -0.0322, 0.1109,  0.1567,  -0.0729, 0.0899,
                    -0.2799, -0.1230, -0.0313, -0.1649, 0.0117,  0.0723,  -0.2839, -0.2083, -0.0520, 0.3748,
                    0.0152,  0.1957,  0.1433,  -0.2944, 0.3573,  -0.0548, -0.1681, -0.0667};
  c.latents_std = {0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344,
                   0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804,
                   0.5833, 1.4146, 0.8986, 0.5659, 0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999,
                   0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887,
                   0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744};
  return c;
}

// Takes the preset's value. An explicit different value is an error, not silently dropped.
class Preset {
 public:
  Preset(Config& c, const Config& from) : c_(c), from_(from) {}
  template <class... M>
  void take(const char* name, M Config::*... field) {
    (one(name, field), ...);
  }

 private:
  template <class M>
  void one(const char* name, M Config::*field) {
    if (c_.*field != Config().*field && c_.*field != from_.*field)
      refuse(std::string("size = \"") + c_.size + "\" sets " + name + "; leave one of the two out");
    c_.*field = from_.*field;
  }
  Config& c_;
  const Config& from_;
};

void fill(Config& c) {
  if (c.size.empty()) return;
  const Config from = c.size == "2.2" ? wan22() : Config();
  Preset p(c, from);
  p.take("base_dim", &Config::base_dim);
  p.take("decoder_base_dim", &Config::decoder_base_dim);
  p.take("z_dim", &Config::z_dim);
  p.take("dim_mult", &Config::dim_mult);
  p.take("num_res_blocks", &Config::num_res_blocks);
  p.take("attn_scales", &Config::attn_scales);
  p.take("temperal_downsample", &Config::temperal_downsample);
  p.take("is_residual", &Config::is_residual);
  p.take("in_channels or out_channels", &Config::in_channels, &Config::out_channels);
  p.take("patch_size", &Config::patch_size);
  p.take("scale_factor_spatial", &Config::scale_factor_spatial);
  p.take("scale_factor_temporal", &Config::scale_factor_temporal);
  p.take("latents_mean or latents_std", &Config::latents_mean, &Config::latents_std);
}

void check_levels(const Config& c) {
  if (c.dim_mult.empty()) refuse("dim_mult is empty; give one multiplier a level");
  if (static_cast<int64_t>(c.temperal_downsample.size()) != c.levels() - 1)
    refuse("temperal_downsample has " + std::to_string(c.temperal_downsample.size()) + " entries; " +
           std::to_string(c.levels()) + " levels of dim_mult need " + std::to_string(c.levels() - 1));
  const auto area = c.patch_size * c.patch_size;
  if (c.in_channels % area || c.out_channels % area)
    refuse("in_channels " + std::to_string(c.in_channels) + " and out_channels " +
           std::to_string(c.out_channels) + " must be multiples of patch_size^2 = " + std::to_string(area));
  if (c.is_residual && !c.attn_scales.empty())
    refuse("attn_scales has no place in a residual encoder (is_residual = true); leave it empty");
}

void check_latents(const Config& c) {
  if (!c.normalise || (c.latents_mean.empty() && c.latents_std.empty())) return;
  const auto z = static_cast<size_t>(c.z_dim);
  if (c.latents_mean.size() != z || c.latents_std.size() != z)
    refuse("latents_mean has " + std::to_string(c.latents_mean.size()) + " and latents_std " +
           std::to_string(c.latents_std.size()) + " values for z_dim = " + std::to_string(c.z_dim) +
           "; give as many, or normalise = false");
}

void check_tile(const char* name, int64_t tile, int64_t& stride, int64_t unit) {
  if (tile == 0 && stride != 0) refuse(std::string("tile_stride_") + name + " without tile_" + name);
  if (tile != 0 && stride == 0) stride = tile;
  if (tile % unit || stride % unit || stride > tile)
    refuse(std::string("tile_") + name + " = " + std::to_string(tile) + ", tile_stride_" + name + " = " +
           std::to_string(stride) + "; both must be multiples of " + std::to_string(unit) +
           ", the stride at most the tile");
}

constexpr int64_t kLevels = 8;  // twice as many as published

Renames made(int64_t resnets) {
  const Renames residual{{"residual.0", "norm1"}, {"residual.2", "conv1"},       {"residual.3", "norm2"},
                         {"residual.6", "conv2"}, {"shortcut", "conv_shortcut"}, {"", ""}};
  Renames all{{"conv1", "quant_conv"}, {"conv2", "post_quant_conv"}};
  for (const std::string part : {"encoder", "decoder"})
    all.under(part, part,
              Renames{{"conv1", "conv_in"},
                      {"head.0", "norm_out"},
                      {"head.2", "conv_out"},
                      {"middle.1", "mid_block.attentions.0"}}
                  .under("middle.0", "mid_block.resnets.0", residual)
                  .under("middle.2", "mid_block.resnets.1", residual));
  // 2.2 lists the layers of a level inside it, 2.1 all in one list, which diffusers keeps in the encoder and
  // splits into levels in the decoder. A level ends with its resampling.
  const std::string last = std::to_string(resnets), one_more = std::to_string(resnets + 1);
  all.add("encoder.downsamples.*.downsamples." + last, "encoder.down_blocks.*.downsampler")
      .under("encoder.downsamples.*.downsamples.*", "encoder.down_blocks.*.resnets.*", residual)
      .under("encoder.downsamples.*", "encoder.down_blocks.*", residual)
      .add("decoder.upsamples.*.upsamples." + one_more, "decoder.up_blocks.*.upsampler")
      .under("decoder.upsamples.*.upsamples.*", "decoder.up_blocks.*.resnets.*", residual);
  int64_t next = 0;
  for (int64_t i = 0; i < kLevels; ++i) {
    const std::string level = "decoder.up_blocks." + std::to_string(i);
    const auto theirs = [&] { return "decoder.upsamples." + std::to_string(next++); };
    for (int64_t j = 0; j <= resnets; ++j)
      all.under(theirs(), level + ".resnets." + std::to_string(j), residual);
    all.add(theirs(), level + ".upsamplers.0");
  }
  return all;
}

}  // namespace

int64_t Config::time() const {
  return int64_t{1} << std::count_if(temperal_downsample.begin(), temperal_downsample.end(),
                                     [](int64_t on) { return on != 0; });
}

Config resolved(Config c) {
  fill(c);
  check_levels(c);
  check_latents(c);
  if (c.decoder_base_dim == 0) c.decoder_base_dim = c.base_dim;
  check_tile("height", c.tile_height, c.tile_stride_height, c.space());
  check_tile("width", c.tile_width, c.tile_stride_width, c.space());
  check_tile("frames", c.tile_frames, c.tile_stride_frames, c.time());
  if ((c.tile_height == 0) != (c.tile_width == 0)) refuse("tile_height and tile_width go together");
  return c;
}

// Follows dependencies from a late frame back through the decoder. A convolution reaches 2 frames back; where
// time is doubled, frame j comes from frame ceil(j / 2) of the coarser sequence.
int64_t decoder_span(const Config& c) {
  constexpr int64_t late = int64_t{1} << 40;
  int64_t frame = 1 + c.time() * (late - 1);  // the first frame that latent frame `late` decodes to
  const int64_t stack = 2 * 2 * (c.num_res_blocks + 1);
  frame -= 2;  // conv_out
  for (int64_t level = 0; level < c.levels(); ++level) {
    if (level > 0 && c.time_at(level - 1)) frame = (frame + 1) / 2 - 2;
    frame -= stack;
  }
  return late - (frame - 2 * 2 * 2 - 2) + 1;  // the middle's two residual blocks, conv_in
}

// Follows dependencies from a late latent frame back through the encoder. Where time is halved, frame j comes
// from frames 2 j - 2 to 2 j of the finer sequence.
int64_t encoder_span(const Config& c) {
  constexpr int64_t late = int64_t{1} << 40;
  const int64_t stack = 2 * 2 * c.num_res_blocks;
  int64_t frame = late - 2 - 2 * 2 * 2;  // conv_out, the middle's two residual blocks
  for (int64_t level = c.levels() - 1; level >= 0; --level) {
    if (level < c.levels() - 1 && c.time_at(level)) frame = 2 * frame - 2;
    frame -= stack;
  }
  frame -= 2;  // conv_in
  return late - (frame + c.time() - 1) / c.time() + 1;
}

std::string diffusers_name(const std::string& original) {
  static const Renames names = made(2);
  return names.ours(original);
}

}  // namespace kinora::wan
