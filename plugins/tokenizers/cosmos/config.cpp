#include "plugins/tokenizers/cosmos/config.hpp"

#include <algorithm>
#include <bit>

#include "kinora/error.hpp"

namespace kinora::cosmos {
namespace {

int64_t log2_of(const char* name, int64_t v) {
  if (v < 1 || !std::has_single_bit(static_cast<uint64_t>(v)))
    throw Error(KINORA_INVALID, "tokenizer/cosmos: " + std::string(name) + " = " + std::to_string(v) +
                                    " is not a power of two");
  return std::countr_zero(static_cast<uint64_t>(v));
}

// Halvings in space and time that are left after patching.
struct Halvings {
  int64_t space, time;
};

Halvings halvings(const Config& c) {
  const int64_t patch = log2_of("patch_size", c.patch_size);
  const Halvings h{log2_of("spatial_compression_ratio", c.spatial_compression_ratio) - patch,
                   log2_of("temporal_compression_ratio", c.temporal_compression_ratio) - patch};
  if (h.space < 0 || h.time < 0)
    throw Error(KINORA_INVALID, "tokenizer/cosmos: patch_size " + std::to_string(c.patch_size) +
                                    " already compresses more than the compression ratios ask for");
  return h;
}

void check_channels(const char* name, const std::vector<int64_t>& channels) {
  if (channels.size() < 2 || std::any_of(channels.begin(), channels.end(), [](int64_t n) { return n < 1; }))
    throw Error(KINORA_INVALID,
                "tokenizer/cosmos: " + std::string(name) + " needs at least two positive numbers");
}

bool contains(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

void check_reached(const char* name, const std::vector<Level>& levels, const Halvings& want) {
  const auto space = std::count_if(levels.begin(), levels.end(), [](const Level& l) { return l.space; });
  const auto time = std::count_if(levels.begin(), levels.end(), [](const Level& l) { return l.time; });
  if (space != want.space || time != want.time)
    throw Error(KINORA_INVALID,
                "tokenizer/cosmos: " + std::string(name) + " has " + std::to_string(levels.size() + 1) +
                    " entries; the compression ratios need " +
                    std::to_string(std::max(want.space, want.time) + 2) + " or more, or a larger patch_size");
}

}  // namespace

std::vector<Level> encoder_levels(const Config& c) {
  const auto& channels = c.encoder_block_out_channels;
  check_channels("encoder_block_out_channels", channels);
  const Halvings h = halvings(c);
  const auto n = static_cast<int64_t>(channels.size()) - 1;
  int64_t resolution = c.resolution / c.patch_size;
  std::vector<Level> levels;
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool resample = i < n - 1;
    levels.push_back({channels[k], channels[k + 1], contains(c.attention_resolutions, resolution), resample,
                      resample && i < h.space, resample && i < h.time});
    if (resample) resolution /= 2;
  }
  check_reached("encoder_block_out_channels", levels, h);
  return levels;
}

// The deepest block comes first. Time grows from the second block on, and space with it; space grows in the
// first ones too where it is compressed more than time.
std::vector<Level> decoder_levels(const Config& c) {
  auto channels = c.decode_block_out_channels;
  check_channels("decode_block_out_channels", channels);
  std::reverse(channels.begin(), channels.end());
  const Halvings h = halvings(c);
  const auto n = static_cast<int64_t>(channels.size()) - 1;
  int64_t resolution = (c.resolution / c.patch_size) >> (n - 1);
  std::vector<Level> levels;
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool resample = i < n - 1;
    const bool time = resample && 0 < i && i < h.time + 1;
    const bool space = time || (resample && i < h.space && h.space > h.time);
    levels.push_back(
        {channels[k], channels[k + 1], contains(c.attention_resolutions, resolution), resample, space, time});
    if (resample) resolution *= 2;
  }
  check_reached("decode_block_out_channels", levels, h);
  return levels;
}

}  // namespace kinora::cosmos
