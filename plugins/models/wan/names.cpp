#include "plugins/models/wan/names.hpp"

#include "kinora/renames.hpp"

namespace kinora::wan {
namespace {

constexpr std::string_view kWrapped = "model.diffusion_model.";

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

std::string diffusers_name(const std::string& original) { return names().ours(original); }
std::string original_name(const std::string& diffusers) { return names().theirs(diffusers); }

std::string name_of_comfyui(const std::string& wrapped) {
  return wrapped.starts_with(kWrapped) ? diffusers_name(wrapped.substr(kWrapped.size())) : "";
}
std::string comfyui_name(const std::string& diffusers) {
  return std::string(kWrapped) + original_name(diffusers);
}

}  // namespace kinora::wan
