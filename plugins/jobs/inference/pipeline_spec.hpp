// The parts and settings of a pipeline, as a plain value from which a Pipeline opens and loads everything.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/inference/generate_options.hpp"
#include "plugins/jobs/inference/loras.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/inference/shots.hpp"
#include "plugins/jobs/latents/latents.hpp"

namespace kinora::core::inference {

struct PipelineSpec {
  std::string name;  // in messages
  // Everything that decides a video, by its slot: model, tokenizer and precision; sampler and loss of a model
  // that denoises; cache, if it draws codes or makes chunks; model_2 (the second expert), text, words and
  // image_encoder if there are any.
  std::map<std::string, Part> parts;
  double boundary = 0;               // share of the timesteps below which the second expert denoises
  bool has_resident_experts = true;  // both are in memory
  std::vector<LoraFile> loras;       // of which each video has one or none
  std::optional<TextEncoder::Parts> text;
  bool encodes_empty_negative = false;  // an empty negative prompt is a text; else zeros
  FrameOptions rule;                    // of the model's frames
  ShotRule shots;
  bool shares_timestep = false;  // given frames have the timestep of the other frames
  LatentFacts latents;           // that the model was trained on
  RequestedSize size;
  double fps = 0;           // frames per second of the videos; 0: encoded_fps
  double encoded_fps = 0;   // of the latents that an earlier job encoded; 0: none did
  bool is_trained = false;  // on these latents, by an earlier job
  uint64_t seed = 0;        // of the random numbers that a model draws itself
  std::string device = "auto";
  bool cuda_graphs = true;
  std::filesystem::path kept;  // digests of weights, see kept_digests()

  const ComponentUse& use(const std::string& slot) const { return *parts.at(slot).use; }
  bool has(const std::string& slot) const { return parts.contains(slot); }
};

// The rule of the model's frames: a train job's model keeps the one it was trained with, also if it was distilled.
FrameOptions frame_rule_of(const JobView& job, const GenerateOptions& options);
// Why a video of a model that denoises is made without a cache of keys and values; "" if it is made on one.
std::string why_no_cache(const JobView& job, const GenerateOptions& options, bool has_two_experts);
// The pipeline of a generate job, with the networks of earlier jobs. Throws Error that names the faulty
// option.
PipelineSpec pipeline_spec(const JobView& job, const GenerateOptions& options);
// The job's LoRA adapters; a run file's are next to it.
std::vector<LoraFile> loras_of(const JobView& job, const GenerateOptions& options);
// The result of core::made_with() for a video with this LoRA; "": none.
nlohmann::json with_lora(nlohmann::json made_with, const PipelineSpec& spec, const std::string& lora);

}  // namespace kinora::core::inference
