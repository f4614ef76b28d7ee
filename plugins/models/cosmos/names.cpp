#include "plugins/models/cosmos/names.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace kinora::cosmos {
namespace {

struct Rename {
  std::string_view from, to;
};

constexpr Rename outside[] = {{"x_embedder.proj.1", "patch_embed.proj"},
                              {"t_embedder.1", "time_embed.t_embedder"},
                              {"affline_norm", "time_embed.norm"},
                              {"t_embedding_norm", "time_embed.norm"},
                              {"extra_pos_embedder", "learnable_pos_embed"},
                              {"final_layer.adaLN_modulation.1", "norm_out.linear_1"},
                              {"final_layer.adaLN_modulation.2", "norm_out.linear_2"},
                              {"final_layer.adaln_modulation.1", "norm_out.linear_1"},
                              {"final_layer.adaln_modulation.2", "norm_out.linear_2"},
                              {"final_layer.linear", "proj_out"}};

// Within a third of a block of predict1; # is 1 for self-attention, 2 for cross-attention, 3 for the MLP.
constexpr Rename predict1[] = {
    {"adaLN_modulation.1", "norm#.linear_1"}, {"adaLN_modulation.2", "norm#.linear_2"},
    {"block.attn.to_q.0", "attn#.to_q"},      {"block.attn.to_q.1", "attn#.norm_q"},
    {"block.attn.to_k.0", "attn#.to_k"},      {"block.attn.to_k.1", "attn#.norm_k"},
    {"block.attn.to_v.0", "attn#.to_v"},      {"block.attn.to_out.0", "attn#.to_out.0"},
    {"block.layer1", "ff.net.0.proj"},        {"block.layer2", "ff.net.2"}};

constexpr Rename parts[] = {{"self_attn", "1"}, {"cross_attn", "2"}, {"mlp", "3"}};
constexpr Rename predict2[] = {{"q_proj", "to_q"},   {"k_proj", "to_k"},   {"v_proj", "to_v"},
                               {"q_norm", "norm_q"}, {"k_norm", "norm_k"}, {"output_proj", "to_out.0"}};
constexpr Rename predict2_mlp[] = {{"mlp.layer1", "ff.net.0.proj"}, {"mlp.layer2", "ff.net.2"}};

// Takes `start` off the front, if it is followed by a dot or by nothing.
bool take(std::string_view& name, std::string_view start) {
  if (!name.starts_with(start) || (name.size() > start.size() && name[start.size()] != '.')) return false;
  name.remove_prefix(std::min(name.size(), start.size() + 1));
  return true;
}

std::string dotted(std::string_view first, std::string_view rest) {
  return std::string(first) + (rest.empty() ? "" : ".") + std::string(rest);
}

std::optional<std::string> renamed(std::string_view name, std::span<const Rename> table) {
  for (const auto& r : table)
    if (take(name, r.from)) return dotted(r.to, name);
  return std::nullopt;
}

std::string_view take_number(std::string_view& name) {
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const auto number = name.substr(0, digits);
  return digits > 0 && take(name, number) ? number : std::string_view();
}

// blocks.{0, 1, 2}.REST
std::optional<std::string> in_predict1(std::string_view name) {
  if (!take(name, "blocks")) return std::nullopt;
  const auto third = take_number(name);
  if (third.size() != 1 || third[0] > '2') return std::nullopt;
  auto out = renamed(name, predict1);
  if (out) std::replace(out->begin(), out->end(), '#', static_cast<char>(third[0] + 1));
  return out;
}

// self_attn.REST, mlp.REST, adaln_modulation_mlp.REST, ...
std::optional<std::string> in_predict2(std::string_view name) {
  for (const auto& part : parts) {
    auto rest = name;
    if (!take(rest, "adaln_modulation_" + std::string(part.from))) continue;
    return "norm" + std::string(part.to) + ".linear_" + std::string(rest);
  }
  if (auto out = renamed(name, predict2_mlp)) return out;
  for (const auto& part : parts) {
    auto rest = name;
    if (!take(rest, part.from)) continue;
    if (const auto out = renamed(rest, predict2)) return "attn" + std::string(part.to) + "." + *out;
  }
  return std::nullopt;
}

bool no_parameter(std::string_view name) {
  return name.find("_extra_state") != name.npos || name.starts_with("pos_embedder.") ||
         name.starts_with("accum_");
}

}  // namespace

std::string diffusers_name(std::string_view original) {
  auto name = original;
  take(name, "net");
  if (no_parameter(name)) return "";
  if (const auto out = renamed(name, outside)) return *out;
  auto inside = name;
  if (!take(inside, "blocks")) return std::string(name);
  const bool first = inside.starts_with("block");
  if (first) inside.remove_prefix(5);
  const auto number = take_number(inside);
  const auto out = first ? in_predict1(inside) : in_predict2(inside);
  if (number.empty() || !out) return std::string(name);
  return dotted("transformer_blocks." + std::string(number), *out);
}

}  // namespace kinora::cosmos
