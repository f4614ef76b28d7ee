// What is published is often a pipeline: a folder with model_index.json and one folder for each of its parts.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// The part of a pipeline's folder that fits the component: transformer/ (or unet/) for a model, text_encoder/
// for a model of input_ids, vae/ for a tokenizer. Any other path as it is. Throws
// kinora::Error: KINORA_NOT_FOUND that lists the parts, KINORA_UNSUPPORTED if the model is two experts.
std::filesystem::path published_part(const std::filesystem::path& given, const ComponentSpec& spec);

// The archives that a path of weights is instead of safetensors: a file *.jit, *.pt or *.pth itself; of a
// folder encoder.jit and decoder.jit, else its only *.pt or *.pth if it has no safetensors. Empty: none.
std::vector<std::filesystem::path> archives_of(const std::filesystem::path& given);

// What a folder calls the weights of the component: "model" for what transformers has (a model of input_ids,
// pictures or videos), else "diffusion_pytorch_model".
const char* published_stem(const ComponentSpec& spec);

// A pipeline whose model is two (Wan 2.2 A14B): one denoises from noise on, the other below a share of the
// timesteps.
struct PublishedExperts {
  std::filesystem::path high, low;
  double boundary;  // boundary_ratio of model_index.json; 0: it says none
};
// Nothing if the path is no such pipeline's folder.
std::optional<PublishedExperts> published_experts(const std::filesystem::path& given,
                                                  const ComponentSpec& spec);

}  // namespace kinora::core
