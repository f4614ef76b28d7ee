// The vectors of texts, for searches among clips by words.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

class Runtime;

class TextVectors {
 public:
  static constexpr const char* kId = "service/text-vectors";
  virtual ~TextVectors() = default;
  // One vector of length 1 for each text. encoder: as an embed-text job's text.json describes it: {"words", "text",
  // "words_options", "text_options", "weights", "max_tokens", "device"}. Throws kinora::Error.
  virtual std::vector<std::vector<float>> embed(Runtime&, const nlohmann::json& encoder,
                                                const std::vector<std::string>& texts) const = 0;
};

}  // namespace kinora::core
