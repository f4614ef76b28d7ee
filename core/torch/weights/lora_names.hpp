// Names of LoRA tensors as the programs of this field write them, and the parameters that they mean.
//
//   PEFT                          base_model.model.MODULE.lora_A.weight, in memory .lora_A.ADAPTER.weight
//   LongLive                      generator_lora.base_model.model.MODULE.lora_A.weight, critic_lora. likewise
//   diffusers                     transformer.MODULE.lora_A.weight, text_encoder.MODULE...;
//                                 older: MODULE.lora.down.weight
//   ComfyUI, diffusion-pipe, ai-toolkit   diffusion_model.MODULE.lora_A.weight or .lora_down.weight
//   kohya, musubi-tuner           lora_unet_MODULE, its dots underscores, .lora_down.weight, .lora_up.weight, .alpha
//   DiffSynth                     MODULE.lora_A.default.weight
//   extracted from two models     MODULE.diff, .diff_b, .diff_m: whole differences of weight, bias, modulation
//
// MODULE is diffusers' or the authors' ("blocks.0.attn1.to_q", "blocks.0.self_attn.q").
// Sources: diffusers loaders/lora_conversion_utils.py, ComfyUI comfy/lora.py, musubi-tuner convert_lora.py,
// diffusion-pipe models/base.py, ai-toolkit extensions_built_in/diffusion_models/wan22.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kinora::core {

enum class LoraPart { a, b, b_bias, alpha, weight, bias, modulation };  // the last three: whole differences

struct LoraName {
  std::string network;  // "": the transformer, or nothing is said; "transformer_2"; "text_encoder"
  std::string prefix;   // what was in front of the module
  std::string module;   // flattened ones as they are: "blocks_0_self_attn_q"
  std::string adapter;  // PEFT's name of the adapter; "" without one
  LoraPart part = LoraPart::a;

  // Name of the parameter that the tensor changes, as far as the file says it: "blocks.0.attn1.to_q.weight".
  std::string parameter() const;
};
// nullopt if the name is not one of a LoRA.
std::optional<LoraName> lora_name(const std::string& tensor);

// The method and the programs that write a tensor of this name, such as "DoRA (PEFT's use_dora)"; "" if it is
// unknown.
std::string other_method(const std::string& tensor);

// A naming scheme: the name that it has for one of our parameters.
using LoraScheme = std::function<std::string(const std::string& ours)>;

// Our names of an adapter's parameters, by the one scheme of all under which the most of them are known; the
// first on a tie. A block's number does not matter: names of block 0 stand for all. names: LoraName::parameter()
// of all. "" for one that is not known. scheme: receives the number of the scheme.
std::map<std::string, std::string> our_names(const std::vector<std::string>& names,
                                             const std::vector<LoraScheme>& schemes,
                                             const std::set<std::string>& parameters,
                                             size_t* scheme = nullptr);

// Without what programs put in front of a network's names, such as "diffusion_model.".
std::string without_prefix(const std::string& name);

}  // namespace kinora::core
