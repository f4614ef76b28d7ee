#include "plugins/tokenizers/wan/names.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace kinora::wan {
namespace {

struct Rename {
  std::string_view from, to;
};

// Prefixes of complete names.
constexpr std::array<Rename, 12> kPrefixes{{
    {"conv1.", "quant_conv."},
    {"conv2.", "post_quant_conv."},
    {"encoder.conv1.", "encoder.conv_in."},
    {"decoder.conv1.", "decoder.conv_in."},
    {"encoder.head.0.", "encoder.norm_out."},
    {"decoder.head.0.", "decoder.norm_out."},
    {"encoder.head.2.", "encoder.conv_out."},
    {"decoder.head.2.", "decoder.conv_out."},
    {"encoder.middle.1.", "encoder.mid_block.attentions.0."},
    {"decoder.middle.1.", "decoder.mid_block.attentions.0."},
    {"encoder.downsamples.", "encoder.down_blocks."},
    {"decoder.upsamples.", "decoder.up_blocks."},
}};

// Names inside a residual block.
constexpr std::array<Rename, 5> kResidual{{
    {"residual.0.", "norm1."},
    {"residual.2.", "conv1."},
    {"residual.3.", "norm2."},
    {"residual.6.", "conv2."},
    {"shortcut.", "conv_shortcut."},
}};

template <size_t N>
const Rename* find(const std::array<Rename, N>& table, std::string_view name) {
  for (const auto& r : table)
    if (name.starts_with(r.from)) return &r;
  return nullptr;
}

std::string residual(std::string_view name) {
  const auto* r = find(kResidual, name);
  return r ? std::string(r->to).append(name.substr(r->from.size())) : std::string(name);
}

// Removes "12." from the front.
std::optional<int64_t> number(std::string_view& name) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return {};
  name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
  return n;
}

bool take(std::string_view& name, std::string_view front) {
  if (!name.starts_with(front)) return false;
  name.remove_prefix(front.size());
  return true;
}

// The part after encoder.downsamples. / decoder.upsamples.: 2.2 lists the layers of a level inside it, 2.1 all
// in one list, which diffusers keeps in the encoder and splits into levels in the decoder. Empty: not such a
// name.
std::string level(std::string_view rest, bool up, int64_t resnets) {
  const auto n = number(rest);
  if (!n) return {};
  int64_t block = *n, layer = *n;
  const bool nested = take(rest, up ? "upsamples." : "downsamples.");
  if (nested) {
    const auto inner = number(rest);
    if (!inner) return {};
    layer = *inner;
  } else if (!up) {
    return std::to_string(*n) + "." + residual(rest);
  } else {
    block = *n / (resnets + 1);
    layer = *n % (resnets + 1);
  }
  const std::string at = std::to_string(block) + ".";
  if (layer < resnets) return at + "resnets." + std::to_string(layer) + "." + residual(rest);
  return at + (!up ? "downsampler." : nested ? "upsampler." : "upsamplers.0.") + std::string(rest);
}

}  // namespace

std::string diffusers_name(const std::string& original, int64_t num_res_blocks) {
  std::string_view rest = original;
  for (const std::string_view part : {"encoder.", "decoder."})
    for (const std::string_view index : {"0", "2"}) {
      const std::string from = std::string(part) + "middle." + std::string(index) + ".";
      if (take(rest, from))
        return std::string(part) + "mid_block.resnets." + (index == "0" ? "0." : "1.") + residual(rest);
    }
  const auto* r = find(kPrefixes, rest);
  if (!r) return original;
  rest.remove_prefix(r->from.size());
  std::string tail(rest);
  if (r->from == "encoder.downsamples.") tail = level(rest, false, num_res_blocks);
  if (r->from == "decoder.upsamples.") tail = level(rest, true, num_res_blocks + 1);
  return tail.empty() ? original : std::string(r->to) + tail;
}

}  // namespace kinora::wan
