#include "plugins/models/wan/names.hpp"

#include <algorithm>
#include <cctype>

namespace kinora::wan {
namespace {

struct Rename {
  const char *from, *to;
};

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

// Wan numbers a block's norms by their place in the code, diffusers by their turn in the block.
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

// Renames what stands at `at`; true if something did.
template <size_t n>
bool rename(std::string& name, size_t at, const Rename (&table)[n]) {
  for (const auto& [from, to] : table) {
    if (name.compare(at, std::char_traits<char>::length(from), from) != 0) continue;
    name.replace(at, std::char_traits<char>::length(from), to);
    return true;
  }
  return false;
}

}  // namespace

std::string diffusers_name(std::string name) {
  const std::string wrapped = "model.diffusion_model.", blocks = "blocks.";
  if (name.rfind(wrapped, 0) == 0) name.erase(0, wrapped.size());
  if (name.rfind(blocks, 0) != 0) {
    rename(name, 0, outside);
    return name;
  }
  const auto dot = std::find_if_not(name.begin() + static_cast<std::ptrdiff_t>(blocks.size()), name.end(),
                                    [](unsigned char c) { return std::isdigit(c); });
  if (dot == name.end() || *dot != '.') return name;
  const auto at = static_cast<size_t>(dot - name.begin()) + 1;
  rename(name, at, in_block);
  const std::string attention = "attn1.";
  if (name.compare(at, 4, "attn") == 0 && name.size() > at + attention.size())
    rename(name, at + attention.size(), in_attention);
  return name;
}

}  // namespace kinora::wan
