// The encoder of captions that text.json names: a stage that makes tokens and a model, with their options and weights.
#pragma once
#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

struct CaptionEncoder {
  std::string words, text;  // ids of the stage and of the model
  Options words_options, text_options;
  std::vector<std::filesystem::path> weights;
  int64_t max_tokens = 0;
  std::string device;
};

// Throws Error(KINORA_DATA) with the faulty member of text.json.
CaptionEncoder read_caption_encoder(const Registry&, const json& encoder);

// Guards against folders from untrusted sources: throws Error(KINORA_DATA) unless the stage declares that it makes tokens
// and the weights are local safetensors, so that nothing the folder names is run as a program.
void require_safe(const Registry&, const CaptionEncoder&);

}  // namespace kinora::core
