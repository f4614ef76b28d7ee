#include "plugins/jobs/training/caption_vectors.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/device.hpp"

namespace kinora::core {
namespace {

TextEncoder::Parts parts_of(const CaptionEncoder& encoder) {
  TextEncoder::Parts parts;
  parts.words = encoder.words;
  parts.text = encoder.text;
  parts.words_options = encoder.words_options;
  parts.text_options = encoder.text_options;
  parts.weights = encoder.weights;
  parts.max_tokens = encoder.max_tokens;
  return parts;
}

}  // namespace

CaptionVectors::CaptionVectors(Runtime& runtime, const CaptionEncoder& encoder)
    : encoder_(runtime, parts_of(encoder), device_of(encoder.device)) {}

std::vector<float> CaptionVectors::operator()(const std::string& text) {
  const at::Tensor mean = encoder_(text).mean(0), unit = (mean / mean.norm().clamp_min(1e-12)).contiguous();
  const auto* from = unit.const_data_ptr<float>();
  return {from, from + unit.numel()};
}

json embed_texts(Runtime& runtime, const json& request) {
  const CaptionEncoder named = read_caption_encoder(runtime.registry(), request);
  require_safe(runtime.registry(), named);
  CaptionVectors vector_of(runtime, named);
  json out = json::array();
  for (const auto& text : request.at("texts")) out.push_back(vector_of(text.get<std::string>()));
  return {{"embeddings", out}};
}

}  // namespace kinora::core
