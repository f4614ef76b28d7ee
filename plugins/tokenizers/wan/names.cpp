#include "plugins/tokenizers/wan/names.hpp"

#include "kinora/renames.hpp"

namespace kinora::wan {
namespace {

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

std::string diffusers_name(const std::string& original) {
  static const Renames names = made(2);
  return names.ours(original);
}

}  // namespace kinora::wan
