#include "plugins/tokenizers/cosmos/names.hpp"

#include <string>
#include <vector>

namespace kinora::cosmos {
namespace {

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
