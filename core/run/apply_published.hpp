// Finds weights inside published pipelines: folders with model_index.json and one folder per part.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// The part of a pipeline's folder that fits the component: transformer/ (or unet/) for a model, text_encoder/
// for a model of input_ids, vae/ for a tokenizer. Any other path is returned unchanged. Throws
// kinora::Error: KINORA_NOT_FOUND that lists the parts, KINORA_UNSUPPORTED if the model has two experts.
std::filesystem::path published_part(const std::filesystem::path& given, const ComponentSpec& spec);

// The TorchScript archives behind a path of weights: a *.jit, *.pt or *.pth file itself; for a folder its encoder.jit
// and decoder.jit, else its only *.pt or *.pth if it has no safetensors. Empty: none.
std::vector<std::filesystem::path> archives_of(const std::filesystem::path& given);

// File name stem of the component's weights in a published folder: "model" for models of the transformers library
// (of input_ids, pictures or videos), else "diffusion_pytorch_model".
const char* published_stem(const ComponentSpec& spec);

// A pipeline whose model consists of two experts (Wan 2.2 A14B): one for high noise, the other below a fraction of the
// timesteps.
struct PublishedExperts {
  std::filesystem::path high, low;
  double boundary;  // boundary_ratio of model_index.json; 0 if absent
};
// nullopt if the path is not the folder of such a pipeline.
std::optional<PublishedExperts> published_experts(const std::filesystem::path& given,
                                                  const ComponentSpec& spec);

}  // namespace kinora::core
