#include "plugins/tokenizers/cosmos/names.hpp"

#include <cctype>
#include <vector>

namespace kinora::cosmos {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& s) {
  Words out(1);
  for (const char c : s)
    if (c == '.')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

std::string join(const Words& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : ".") + w;
  return out;
}

bool is_number(const Words& w, size_t i) {
  return i < w.size() && !w[i].empty() && w[i].size() < 4 &&
         std::isdigit(static_cast<unsigned char>(w[i][0])) != 0;
}

// The part before the layer: "down.2.block.0" -> "down_blocks.2.resnets.0". Returns how many words it consumed.
size_t place(const Words& w, size_t i, int64_t up_blocks, Words& out) {
  const auto attention = [&](size_t at, const std::string& index) {
    // A video layer is a pair: over space, over time.
    const bool pair = is_number(w, at);
    out.insert(out.end(), {pair && w[at] == "1" ? "temp_attentions" : "attentions", index});
    return size_t{pair};
  };
  if ((w[i] == "down" || w[i] == "up") && is_number(w, i + 1) && i + 2 < w.size()) {
    const int64_t index = std::stoll(w[i + 1]);
    out.insert(out.end(),
               {w[i] + "_blocks", w[i] == "up" ? std::to_string(up_blocks - 1 - index) : w[i + 1]});
    const std::string& what = w[i + 2];
    if (what == w[i] + "sample") {
      out.insert(out.end(), {what + "rs", "0"});
      return 3;
    }
    if (!is_number(w, i + 3)) return 2;
    if (what == "attn") return 4 + attention(i + 4, w[i + 3]);
    out.insert(out.end(), {what == "block" ? "resnets" : what, w[i + 3]});
    return 4;
  }
  if (w[i] == "mid" && i + 1 < w.size()) {
    out.emplace_back("mid_block");
    if (w[i + 1] == "attn_1") return 2 + attention(i + 2, "0");
    out.insert(out.end(), {"resnets", w[i + 1] == "block_1" ? "0" : "1"});
    return 2;
  }
  return 0;
}

// The layer itself: "conv1.0.conv3d.weight" -> "conv1.conv_s.weight", "q.conv3d.bias" -> "to_q.bias".
void layer(const Words& w, size_t i, Words& out) {
  for (; i < w.size(); ++i) {
    const std::string& s = w[i];
    if (s == "conv3d") continue;
    if (s == "q" || s == "k" || s == "v")
      out.push_back("to_" + s);
    else if (s == "proj_out")
      out.insert(out.end(), {"to_out", "0"});
    else if (s == "nin_shortcut")
      out.emplace_back("conv_shortcut");
    else if (is_number(w, i) && i + 1 < w.size() && w[i + 1] == "conv3d")
      out.push_back(s == "0" ? "conv_s" : "conv_t");
    else
      out.push_back(s);
  }
}

}  // namespace

std::string diffusers_name(const std::string& original, int64_t up_blocks) {
  const Words w = split(original);
  Words out;
  size_t i = 0;
  if (w[0] == "encoder" || w[0] == "decoder") {
    out.push_back(w[0]);
    i = 1;
    if (i < w.size()) i += place(w, i, up_blocks, out);
  } else if (w[0] != "quant_conv" && w[0] != "post_quant_conv") {
    return original;
  }
  layer(w, i, out);
  return join(out);
}

}  // namespace kinora::cosmos
