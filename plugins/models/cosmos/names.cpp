#include "plugins/models/cosmos/names.hpp"

#include "kinora/renames.hpp"

namespace kinora::cosmos {
namespace {

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

std::string diffusers_name(std::string_view original, Release release) {
  if (original.starts_with("net.")) original.remove_prefix(4);
  return no_parameter(original) ? "" : names(release).ours(original);
}

std::string original_name(std::string_view diffusers, Release release) {
  return "net." + names(release).theirs(diffusers);
}

}  // namespace kinora::cosmos
