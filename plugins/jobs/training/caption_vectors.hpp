// Vectors of captions and of `kinora search` queries.
#pragma once
#include <vector>

#include "plugins/jobs/curation/search/caption_encoder.hpp"
#include "plugins/jobs/training/generating/text_encoder.hpp"

namespace kinora::core {

// The mean of a text's token embeddings [L, D], scaled to length 1, as sentence-transformers computes it for MiniLM.
class CaptionVectors {
 public:
  CaptionVectors(Runtime&, const CaptionEncoder&);
  std::vector<float> operator()(const std::string& text);

 private:
  TextEncoder encoder_;
};

// The tool "embed_texts": {"words", "text", "words_options", "text_options", "weights", "max_tokens", "device"}: an encoder in
// the form of an embed-text job's text.json; "texts" -> {"embeddings": [[D numbers]]}, each of length 1.
json embed_texts(Runtime&, const json& request);

}  // namespace kinora::core
