#include "core/torch/weights/lora_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kinora::core {
namespace {

// Prefixes of modules in programs' files, and the network that each names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 25> kPrefixes{{
    {"generator_lora.", ""},
    {"critic_lora.", "critic"},
    {"base_model.model.", ""},
    {"model.diffusion_model.", ""},
    {"diffusion_model.", ""},
    {"transformer.", ""},
    {"transformer_1.", ""},
    {"transformer_2.", "transformer_2"},
    {"high_noise_model.", ""},
    {"low_noise_model.", "transformer_2"},
    {"text_encoders.", "text_encoder"},
    {"text_encoder_2.", "text_encoder"},
    {"text_encoder.", "text_encoder"},
    {"lora_unet__", ""},
    {"lora_unet_", ""},
    {"lora_transformer_", ""},
    {"lora_te1_", "text_encoder"},
    {"lora_te2_", "text_encoder"},
    {"lora_te_", "text_encoder"},
    {"lycoris_", ""},
    {"unet.", ""},
    {"pipe.dit.", ""},
    {"dit.", ""},
    {"net.", ""},
    {"model.", ""},
}};

constexpr std::array<std::pair<std::string_view, LoraPart>, 19> kEndings{{
    {".lora_A.weight", LoraPart::a},
    {".lora_B.weight", LoraPart::b},
    {".lora_B.bias", LoraPart::b_bias},
    {".lora_down.weight", LoraPart::a},
    {".lora_up.weight", LoraPart::b},
    {".lora.down.weight", LoraPart::a},
    {".lora.up.weight", LoraPart::b},
    {"_lora.down.weight", LoraPart::a},
    {"_lora.up.weight", LoraPart::b},
    {".lora_linear_layer.down.weight", LoraPart::a},
    {".lora_linear_layer.up.weight", LoraPart::b},
    {".lora_A", LoraPart::a},
    {".lora_B", LoraPart::b},
    {".alpha", LoraPart::alpha},
    {".diff", LoraPart::weight},
    {".diff_b", LoraPart::bias},
    {".diff_m", LoraPart::modulation},
    {".w_norm", LoraPart::weight},
    {".b_norm", LoraPart::bias},
}};

// MODULE.lora_A.ADAPTER.weight, of PEFT in memory.
bool take_adapter(LoraName& out, std::string& name) {
  for (const auto& [mark, half] : {std::pair{".lora_A.", ".lora_A"},
                                   {".lora_B.", ".lora_B"},
                                   {".lora_down.", ".lora_down"},
                                   {".lora_up.", ".lora_up"}}) {
    const auto at = name.rfind(mark);
    if (at == name.npos) continue;
    const std::string rest = name.substr(at + std::string_view(mark).size());
    const auto dot = rest.find('.');
    if (dot == rest.npos || rest.find('.', dot + 1) != rest.npos) continue;
    out.adapter = rest.substr(0, dot);
    name = name.substr(0, at) + half + rest.substr(dot);
    return true;
  }
  return false;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The length of the prefixes of a name; network: receives the one that they name.
size_t prefix_size(std::string_view name, std::string* network = nullptr) {
  size_t size = 0;
  for (bool found = true; found;) {
    found = false;
    for (const auto& [prefix, of] : kPrefixes) {
      if (!name.substr(size).starts_with(prefix)) continue;
      size += prefix.size(), found = true;
      if (network && !of.empty()) *network = of;
      break;
    }
  }
  return size;
}

// A name with underscores for dots and a star for a block's number, which `number` receives.
std::string form_of(const std::string& name, std::string& number) {
  std::string flat = without_prefix(name);
  std::replace(flat.begin(), flat.end(), '.', '_');
  for (const std::string_view mark : {"blocks_block", "blocks_", "layers_", "block_"}) {
    const auto at = flat.find(mark);
    if (at == flat.npos) continue;
    const auto first = at + mark.size(),
               end = std::min(flat.find_first_not_of("0123456789", first), flat.size());
    if (end == first) continue;
    number = flat.substr(first, end - first);
    return flat.replace(first, end - first, "*");
  }
  number.clear();
  return flat;
}

// One of our names with another block's number: "blocks.0.ffn" with 12 is "blocks.12.ffn".
std::string with_number(const std::string& ours, const std::string& number) {
  std::string own;
  const std::string form = form_of(ours, own);
  if (own.empty() || number.empty()) return ours;
  const size_t at = form.find('*') + prefix_size(ours);
  return std::string(ours).replace(at, own.size(), number);
}

}  // namespace

std::string without_prefix(const std::string& name) { return name.substr(prefix_size(name)); }

std::string LoraName::parameter() const {
  switch (part) {
    case LoraPart::b_bias:
    case LoraPart::bias:
      return module + ".bias";
    case LoraPart::modulation:
      return module + ".modulation";
    default:
      return module + ".weight";
  }
}

std::optional<LoraName> lora_name(const std::string& tensor) {
  LoraName out;
  std::string name = tensor;
  take_adapter(out, name);
  const auto ending = std::find_if(kEndings.begin(), kEndings.end(), [&](const auto& e) {
    return name.size() > e.first.size() && name.ends_with(e.first);
  });
  if (ending == kEndings.end()) return std::nullopt;
  out.part = ending->second;
  name.resize(name.size() - ending->first.size());
  const size_t size = prefix_size(name, &out.network);
  if (size >= name.size()) return std::nullopt;
  out.prefix = name.substr(0, size);
  out.module = replaced(name.substr(size), ".processor.", ".");
  return out;
}

std::string other_method(const std::string& tensor) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> known{{
      {".lora_magnitude_vector", "DoRA, as PEFT writes it with use_dora"},
      {".dora_scale", "DoRA, as kohya, LyCORIS and OneTrainer write it"},
      {".hada_w", "LoHa, as LyCORIS and PEFT write it"},
      {".lokr_w", "LoKr, as LyCORIS, ai-toolkit and PEFT write it"},
      {".lokr_t", "LoKr, as LyCORIS writes it"},
      {".oft_", "OFT, as kohya, OneTrainer and PEFT write it"},
      {".a1.weight", "GLoRA, as LyCORIS writes it"},
      {".b1.weight", "GLoRA, as LyCORIS writes it"},
      {".lora_mid.", "LoRA of convolutions with a core (Tucker), as LyCORIS writes it"},
      {".lora_embedding_", "LoRA of an embedding, as PEFT writes it"},
      {".ia3_l", "IA3, as PEFT writes it"},
      {".vera_lambda", "VeRA, as PEFT writes it"},
      {".set_weight", "whole replaced weights, as ComfyUI reads them"},
      {".reshape_weight", "a reshaped weight, as ComfyUI reads it"},
  }};
  for (const auto& [part, method] : known)
    if (tensor.find(part) != tensor.npos) return std::string(method);
  return "";
}

std::map<std::string, std::string> our_names(const std::vector<std::string>& names,
                                             const std::vector<LoraScheme>& schemes,
                                             const std::set<std::string>& parameters, size_t* scheme) {
  std::map<std::string, std::string> best;
  size_t most = 0;
  std::string number;
  for (size_t i = 0; i < schemes.size(); ++i) {
    std::map<std::string, std::string> by_form;
    for (const auto& ours : parameters) by_form.emplace(form_of(schemes[i](ours), number), ours);
    std::map<std::string, std::string> out;
    size_t known = 0;
    for (const auto& name : names) {
      auto at = by_form.find(form_of(name, number));
      if (at == by_form.end() && name.ends_with(".weight")) {  // a difference of a parameter without a module
        std::string ignored;
        at = by_form.find(form_of(name.substr(0, name.size() - std::string_view(".weight").size()), ignored));
      }
      known += at != by_form.end();
      out[name] = at == by_form.end() ? "" : with_number(at->second, number);
    }
    if (i == 0 || known > most) {
      best = std::move(out), most = known;
      if (scheme) *scheme = i;
    }
  }
  return best;
}

}  // namespace kinora::core
