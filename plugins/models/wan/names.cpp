#include "plugins/models/wan/names.hpp"

#include <string_view>
#include <utility>

namespace kinora::wan {
namespace {

struct Rename {
  std::string_view wan, diffusers;
};

constexpr std::string_view kWrapped = "model.diffusion_model.";

constexpr Rename outside[] = {
    {"time_embedding.0.", "condition_embedder.time_embedder.linear_1."},
    {"time_embedding.2.", "condition_embedder.time_embedder.linear_2."},
    {"time_projection.1.", "condition_embedder.time_proj."},
    {"text_embedding.0.", "condition_embedder.text_embedder.linear_1."},
    {"text_embedding.2.", "condition_embedder.text_embedder.linear_2."},
    {"img_emb.proj.0.", "condition_embedder.image_embedder.norm1."},
    {"img_emb.proj.1.", "condition_embedder.image_embedder.ff.net.0.proj."},
    {"img_emb.proj.3.", "condition_embedder.image_embedder.ff.net.2."},
    {"img_emb.proj.4.", "condition_embedder.image_embedder.norm2."},
    {"img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"},
    {"head.modulation", "scale_shift_table"},
    {"head.head.", "proj_out."},
};

// Wan numbers a block's norms by their order in the code, diffusers by their order in the block.
constexpr Rename in_block[] = {
    {"modulation", "scale_shift_table"},
    {"self_attn.", "attn1."},
    {"cross_attn.", "attn2."},
    {"norm2.", "norm3."},
    {"norm3.", "norm2."},
    {"ffn.0.", "ffn.net.0.proj."},
    {"ffn.2.", "ffn.net.2."},
};

constexpr Rename in_attention[] = {
    {"q.", "to_q."},
    {"k.", "to_k."},
    {"v.", "to_v."},
    {"o.", "to_out.0."},
    {"k_img.", "add_k_proj."},
    {"v_img.", "add_v_proj."},
    {"norm_k_img.", "norm_added_k."},
};

// Renames the part at `at`, in either direction; returns whether it changed.
template <size_t n>
bool rename(std::string& name, size_t at, const Rename (&table)[n], bool back) {
  for (const auto& row : table) {
    const std::string_view from = back ? row.diffusers : row.wan;
    if (name.compare(at, from.size(), from) != 0) continue;
    name.replace(at, from.size(), back ? row.wan : row.diffusers);
    return true;
  }
  return false;
}

std::string renamed(std::string name, bool back) {
  const std::string_view blocks = "blocks.";
  if (!name.starts_with(blocks)) {
    rename(name, 0, outside, back);
    return name;
  }
  const size_t dot = name.find_first_not_of("0123456789", blocks.size());
  if (dot == name.npos || dot == blocks.size() || name[dot] != '.') return name;
  const size_t at = dot + 1;
  if (!rename(name, at, in_block, back)) return name;
  for (const std::string_view attention : {"attn1.", "attn2.", "self_attn.", "cross_attn."})
    if (name.compare(at, attention.size(), attention) == 0)
      rename(name, at + attention.size(), in_attention, back);
  return name;
}

}  // namespace

std::string diffusers_name(std::string original) { return renamed(std::move(original), false); }
std::string original_name(std::string diffusers) { return renamed(std::move(diffusers), true); }

std::string name_of_comfyui(std::string wrapped) {
  return wrapped.starts_with(kWrapped) ? diffusers_name(wrapped.substr(kWrapped.size())) : "";
}
std::string comfyui_name(std::string diffusers) {
  return std::string(kWrapped) + original_name(std::move(diffusers));
}

}  // namespace kinora::wan
