#include "plugins/tokenizers/cosmos/config.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "kinora/error.hpp"

namespace kinora::cosmos {
namespace {

int64_t log2_of(const char* name, int64_t v) {
  if (v < 1 || !std::has_single_bit(static_cast<uint64_t>(v)))
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: " + std::string(name) + " = " + std::to_string(v) +
                                          " is not a power of two");
  return std::countr_zero(static_cast<uint64_t>(v));
}

// Halvings in space and time that remain after patching.
struct Halvings {
  int64_t space, time;
};

Halvings halvings(const Config& c) {
  const int64_t patch = log2_of("patch_size", c.patch_size);
  const Halvings h{
      log2_of("spatial_compression_ratio", c.spatial_compression_ratio) - patch,
      log2_of("temporal_compression_ratio", c.temporal_compression_ratio) - (c.image ? 0 : patch)};
  if (h.space < 0 || h.time < 0)
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: patch_size " + std::to_string(c.patch_size) +
                                          " already compresses more than the compression ratios ask for");
  return h;
}

void check_channels(const char* name, const std::vector<int64_t>& channels) {
  if (channels.size() < 2 || std::any_of(channels.begin(), channels.end(), [](int64_t n) { return n < 1; }))
    throw Error(KINORA_ERROR_INVALID,
                "tokenizer/cosmos: " + std::string(name) + " needs at least two positive numbers");
}

// Number of groups of an image's norms.
void check_groups(const char* name, const Config& c, const std::vector<int64_t>& channels) {
  if (c.image && std::any_of(channels.begin(), channels.end(), [](int64_t n) { return n % 32 != 0; }))
    throw Error(KINORA_ERROR_INVALID,
                "tokenizer/cosmos: " + std::string(name) + " of an image tokenizer needs multiples of 32");
}

bool contains(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// without: number of entries of the list that halve nothing.
void check_reached(const char* name, const std::vector<Level>& levels, const Halvings& want,
                   int64_t without) {
  const auto space = std::count_if(levels.begin(), levels.end(), [](const Level& l) { return l.space; });
  const auto time = std::count_if(levels.begin(), levels.end(), [](const Level& l) { return l.time; });
  if (space != want.space || time != want.time)
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: " + std::string(name) + " has " +
                                          std::to_string(levels.size() + 1) +
                                          " entries; the compression ratios need " +
                                          std::to_string(std::max(want.space, want.time) + without) +
                                          " or more, or a larger patch_size");
}

void check_scale(const Config& c) {
  const auto mean = c.latents_mean.size(), std = c.latents_std.size();
  if (mean == 0 && std == 0) return;
  const auto refuse = [](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: " + what);
  };
  if (c.discrete()) refuse("latents_mean and latents_std are of continuous latents; leave them out");
  if (mean != std || mean % static_cast<size_t>(c.latent_channels))
    refuse("latents_mean has " + std::to_string(mean) + " and latents_std " + std::to_string(std) +
           " numbers; each needs one, or one a latent frame, for each of " +
           std::to_string(c.latent_channels) + " channels");
  if (std::any_of(c.latents_std.begin(), c.latents_std.end(), [](double s) { return !(s > 0); }))
    refuse("latents_std must be above 0");
}

// A layer: for videos a factorised convolution, or one in a wrapper; for images neither.
Renames layers() {
  Renames all;
  for (const std::string conv : {"conv_in", "conv_out", "conv1", "conv2"})
    all.under(conv, conv, {{"0.conv3d", "conv_s"}, {"1.conv3d", "conv_t"}});
  for (const std::string conv : {"conv1", "conv2", "conv3"}) all.add(conv + ".conv3d", conv);
  for (const auto& [theirs, ours] : std::vector<Renames::Row>{{"q", "to_q"},
                                                              {"k", "to_k"},
                                                              {"v", "to_v"},
                                                              {"proj_out", "to_out.0"},
                                                              {"nin_shortcut", "conv_shortcut"}})
    all.under(theirs, ours, {{"conv3d", ""}, {"", ""}});
  return all.add("", "");
}

}  // namespace

const std::vector<std::string>& published_sizes() {
  static const std::vector<std::string> names = {"CV4x8x8",   "CV8x8x8", "CV8x16x16", "DV4x8x8", "DV8x8x8",
                                                 "DV8x16x16", "CI8x8",   "CI16x16",   "DI8x8",   "DI16x16"};
  return names;
}

Config resolved(Config c) {
  if (!c.size.empty()) {
    Config p;
    p.size = c.size;
    p.image = c.size[1] == 'I';
    p.formulation = c.size[0] == 'D' ? "FSQ" : "AE";
    p.latent_channels = p.image && p.discrete() ? 256 : 16;
    p.encoder_block_out_channels = {128, 256, 512, 512};
    p.decode_block_out_channels = {256, 512, 512, 512};
    // The published decoder of this layout has one level less (networks/continuous_video.py).
    if (c.size == "CV4x8x8") p.decode_block_out_channels = {256, 512, 512};
    p.num_layers = 2;
    p.spatial_compression_ratio = c.size.ends_with("16") ? 16 : 8;
    p.temporal_compression_ratio = c.size[2] == '4' ? 4 : 8;
    p.latents_mean = c.latents_mean;
    p.latents_std = c.latents_std;
    c = p;
  }
  if (c.image) c.temporal_compression_ratio = 1;
  if (c.discrete() && c.embedding_dim != static_cast<int64_t>(c.levels.size()))
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: embedding_dim = " + std::to_string(c.embedding_dim) +
                                          ", but " + std::to_string(c.levels.size()) +
                                          " levels; give a level for each number of a code's vector");
  check_scale(c);
  return c;
}

std::vector<Level> encoder_levels(const Config& c) {
  const auto& channels = c.encoder_block_out_channels;
  check_channels("encoder_block_out_channels", channels);
  check_groups("encoder_block_out_channels", c, channels);
  const Halvings h = halvings(c);
  const auto n = static_cast<int64_t>(channels.size()) - 1;
  int64_t resolution = c.resolution / c.patch_size;
  std::vector<Level> levels;
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool resample = c.image ? i < h.space : i < n - 1;
    levels.push_back({channels[k], channels[k + 1], contains(c.attention_resolutions, resolution), resample,
                      resample && i < h.space, resample && i < h.time});
    if (resample) resolution /= 2;
  }
  check_reached("encoder_block_out_channels", levels, h, c.image ? 1 : 2);
  return levels;
}

// The deepest block comes first. Time grows from the second block on, together with space; space also grows
// in the first blocks if it is compressed more than time.
std::vector<Level> decoder_levels(const Config& c) {
  auto channels = c.decode_block_out_channels;
  check_channels("decode_block_out_channels", channels);
  check_groups("decode_block_out_channels", c, channels);
  std::reverse(channels.begin(), channels.end());
  const Halvings h = halvings(c);
  const auto n = static_cast<int64_t>(channels.size()) - 1;
  int64_t resolution = (c.resolution / c.patch_size) >> (n - 1);
  std::vector<Level> levels;
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool resample = c.image ? i < h.space : i < n - 1;
    const bool time = resample && 0 < i && i < h.time + 1;
    const bool space = time || (resample && i < h.space && h.space > h.time);
    levels.push_back(
        {channels[k], channels[k + 1], contains(c.attention_resolutions, resolution), resample, space, time});
    if (resample) resolution *= 2;
  }
  // Time skips the first block, so it needs one more if it is compressed as much as space.
  const int64_t skipped = !c.image && h.time > 0 && h.time >= h.space ? 1 : 0;
  check_reached("decode_block_out_channels", levels, h, (c.image ? 1 : 2) + skipped);
  return levels;
}

Renames names(int64_t up_blocks) {
  const Renames layer = layers();
  Renames all{{"quant_conv.conv3d", "quant_conv"}, {"post_quant_conv.conv3d", "post_quant_conv"}};
  // Attention of a video is a pair: over space, over time.
  const auto attention = [&](const std::string& theirs, const std::string& level, const std::string& index) {
    all.under(theirs + ".0", level + ".attentions." + index, layer)
        .under(theirs + ".1", level + ".temp_attentions." + index, layer)
        .under(theirs, level + ".attentions." + index, layer);
  };
  const auto level = [&](const std::string& theirs, const std::string& ours, const std::string& way) {
    attention(theirs + ".attn.*", ours, "*");
    all.under(theirs + ".block.*", ours + ".resnets.*", layer)
        .under(theirs + "." + way + "sample", ours + "." + way + "samplers.0", layer);
  };
  level("encoder.down.*", "encoder.down_blocks.*", "down");
  for (int64_t i = 0; i < up_blocks; ++i)
    level("decoder.up." + std::to_string(i), "decoder.up_blocks." + std::to_string(up_blocks - 1 - i), "up");
  for (const std::string part : {"encoder", "decoder"}) {
    attention(part + ".mid.attn_1", part + ".mid_block", "0");
    all.under(part + ".mid.block_1", part + ".mid_block.resnets.0", layer)
        .under(part + ".mid.block_2", part + ".mid_block.resnets.1", layer)
        .under(part, part, layer);
  }
  return all;
}

}  // namespace kinora::cosmos
