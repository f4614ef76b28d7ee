#include "plugins/models/cosmos/names.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace kinora::cosmos {
namespace {

// One part of a name: diffusers', cosmos-predict1's (networks/general_dit.py) and cosmos-predict2's
// (models/text2image_dit.py).
struct Row {
  std::string_view diffusers, predict1, predict2;
  std::string_view of(Release r) const { return r == Release::predict1 ? predict1 : predict2; }
};

constexpr Row outside[] = {
    {"patch_embed.proj", "x_embedder.proj.1", "x_embedder.proj.1"},
    {"time_embed.t_embedder", "t_embedder.1", "t_embedder.1"},
    {"time_embed.norm", "affline_norm", "t_embedding_norm"},
    {"learnable_pos_embed", "extra_pos_embedder", "extra_pos_embedder"},
    {"norm_out.linear_1", "final_layer.adaLN_modulation.1", "final_layer.adaln_modulation.1"},
    {"norm_out.linear_2", "final_layer.adaLN_modulation.2", "final_layer.adaln_modulation.2"},
    {"proj_out", "final_layer.linear", "final_layer.linear"}};

// After transformer_blocks.N. in diffusers', blocks.blockN.blocks. in predict1's, blocks.N. in predict2's.
constexpr Row in_block[] = {{"norm1.linear_1", "0.adaLN_modulation.1", "adaln_modulation_self_attn.1"},
                            {"norm1.linear_2", "0.adaLN_modulation.2", "adaln_modulation_self_attn.2"},
                            {"norm2.linear_1", "1.adaLN_modulation.1", "adaln_modulation_cross_attn.1"},
                            {"norm2.linear_2", "1.adaLN_modulation.2", "adaln_modulation_cross_attn.2"},
                            {"norm3.linear_1", "2.adaLN_modulation.1", "adaln_modulation_mlp.1"},
                            {"norm3.linear_2", "2.adaLN_modulation.2", "adaln_modulation_mlp.2"},
                            {"attn1.to_q", "0.block.attn.to_q.0", "self_attn.q_proj"},
                            {"attn1.norm_q", "0.block.attn.to_q.1", "self_attn.q_norm"},
                            {"attn1.to_k", "0.block.attn.to_k.0", "self_attn.k_proj"},
                            {"attn1.norm_k", "0.block.attn.to_k.1", "self_attn.k_norm"},
                            {"attn1.to_v", "0.block.attn.to_v.0", "self_attn.v_proj"},
                            {"attn1.to_out.0", "0.block.attn.to_out.0", "self_attn.output_proj"},
                            {"attn2.to_q", "1.block.attn.to_q.0", "cross_attn.q_proj"},
                            {"attn2.norm_q", "1.block.attn.to_q.1", "cross_attn.q_norm"},
                            {"attn2.to_k", "1.block.attn.to_k.0", "cross_attn.k_proj"},
                            {"attn2.norm_k", "1.block.attn.to_k.1", "cross_attn.k_norm"},
                            {"attn2.to_v", "1.block.attn.to_v.0", "cross_attn.v_proj"},
                            {"attn2.to_out.0", "1.block.attn.to_out.0", "cross_attn.output_proj"},
                            {"ff.net.0.proj", "2.block.layer1", "mlp.layer1"},
                            {"ff.net.2", "2.block.layer2", "mlp.layer2"}};

// Removes `start` from the front, if it is followed by a dot or by nothing.
bool take(std::string_view& name, std::string_view start) {
  if (!name.starts_with(start) || (name.size() > start.size() && name[start.size()] != '.')) return false;
  name.remove_prefix(std::min(name.size(), start.size() + 1));
  return true;
}

std::string dotted(std::string_view first, std::string_view rest) {
  return std::string(first) + (rest.empty() ? "" : ".") + std::string(rest);
}

// from, to: the columns of a row.
std::optional<std::string> renamed(std::string_view name, std::span<const Row> table, auto from, auto to) {
  for (const auto& row : table)
    if (take(name, from(row))) return dotted(to(row), name);
  return std::nullopt;
}

// Removes everything up to the block's number from the front; empty if there is none.
std::string_view take_block(std::string_view& name, std::string_view before) {
  if (!name.starts_with(before)) return {};
  auto rest = name.substr(before.size());
  const auto number = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
  if (number.empty() || !take(rest, number)) return {};
  name = rest;
  return number;
}

bool no_parameter(std::string_view name) {
  return name.find("_extra_state") != name.npos || name.starts_with("pos_embedder.") ||
         name.starts_with("accum_");
}

constexpr auto diffusers_column = [](const Row& row) { return row.diffusers; };

}  // namespace

std::string diffusers_name(std::string_view original, Release release) {
  const auto column = [release](const Row& row) { return row.of(release); };
  auto name = original;
  take(name, "net");
  if (no_parameter(name)) return "";
  if (const auto out = renamed(name, outside, column, diffusers_column)) return *out;
  auto inside = name;
  const bool first = release == Release::predict1;
  const auto number = take_block(inside, first ? "blocks.block" : "blocks.");
  if (number.empty() || (first && !take(inside, "blocks"))) return std::string(name);
  const auto out = renamed(inside, in_block, column, diffusers_column);
  return out ? "transformer_blocks." + std::string(number) + "." + *out : std::string(name);
}

std::string original_name(std::string_view diffusers, Release release) {
  const auto column = [release](const Row& row) { return row.of(release); };
  if (const auto out = renamed(diffusers, outside, diffusers_column, column)) return "net." + *out;
  auto inside = diffusers;
  const auto number = take_block(inside, "transformer_blocks.");
  const auto out = number.empty() ? std::nullopt : renamed(inside, in_block, diffusers_column, column);
  if (!out) return "net." + std::string(diffusers);
  const bool first = release == Release::predict1;
  return (first ? "net.blocks.block" : "net.blocks.") + std::string(number) + (first ? ".blocks." : ".") +
         *out;
}

}  // namespace kinora::cosmos
