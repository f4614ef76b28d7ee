// Recognises a file of weights by the names and shapes of its tensors and by its metadata: published checkpoints of Wan
// and of those that make long videos with it (Self-Forcing, LongLive), whole, as adapters and in four bits.
//
// Their trainers save a dictionary of dictionaries with torch.save; here its names are joined by dots:
//
//   generator.model.X, critic.model.X           a trained network and its critic; X is Wan-AI's own name
//   generator_ema.model.X                       the average; parts such as _fsdp_wrapped_module. may be between
//   generator_lora.base_model.model.M.lora_A.weight, critic_lora.                     adapters of PEFT
//
// A file that holds one of the dictionaries has no first part. Sources: trainer/distillation.py of Self-Forcing 33593df
// and LongLive 7860ad9 and e52d9ef, scripts/save_merged_nvfp4_generator.py, utils/wan_wrapper.py.
#pragma once
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "host/weights/safetensors.hpp"

namespace kinora::core {

// {"component": "model/wan", "kind": "weights" | "adapter", "holds": ["generator", ...], "names": the layout of
// model/wan, "size": "5B" or "", "blocks", "width", "family", "four_bits": count, "chunk", "first_chunk", "steps",
// "training_step": each null if the file does not say it, "problem": why the file is not read, or ""}. An adapter
// also has "modules", "rank" and "alpha" (null: not in the file). null if the names are of no network known here.
// folder: where adapter_config.json may be. Reads no values of tensors but an alpha.
nlohmann::json checkpoint_facts(const std::vector<SafeTensor>& tensors, const SafeMetadata& metadata,
                                const std::filesystem::path& folder);

// The same as lines for people.
std::string checkpoint_text(const nlohmann::json& facts);

// Whether the file is a pickle of torch.save by its name.
bool is_pickle(const std::filesystem::path& file);
// Says what to do with one: the command that converts it, which keeps what LongLive notes of four bits.
std::string pickle_advice(const std::filesystem::path& file);

}  // namespace kinora::core
