// The encoder of captions that text.json of an embed-text job names, and the vectors that it has made.
#pragma once
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

// A stage that makes tokens and a model, with their options and weights.
struct CaptionEncoder {
  std::string words, text;  // ids of the stage and of the model
  Options words_options, text_options;
  std::vector<std::filesystem::path> weights;
  int64_t max_tokens = 0;
  std::string device;
};

// Throws Error(KINORA_ERROR_DATA) with the faulty member of text.json.
CaptionEncoder read_caption_encoder(const Registry&, const json& encoder);

// Guards against folders from untrusted sources: throws Error(KINORA_ERROR_DATA) unless the stage declares
// that it makes tokens and the weights are local safetensors, so that nothing the folder names is run as a
// program.
void require_safe(const Registry&, const CaptionEncoder&);

// [owner-thread] Reuses vectors of texts that an embed-text job computed before, so that an edit costs only
// the texts that it changes.
class KnownTexts {
 public:
  KnownTexts() = default;
  // Reads text.npy and text.json of the folder (plugins/jobs/embed-text/embed_text.cpp) if they belong
  // together and are from this encoder, on whatever device; else nothing.
  KnownTexts(const std::filesystem::path& folder, const nlohmann::json& encoder);

  // Null: the text is unknown.
  const std::vector<float>* find(const std::string& text) const;
  const std::vector<float>& add(const std::string& text, std::vector<float> vector);

 private:
  std::unordered_map<std::string, std::vector<float>> vectors_;  // by SHA-256 of the text
};

}  // namespace kinora::core
