// Tokens of a tokenizer.json that are matched in the text itself, such as "<mask>", before the model runs.
#pragma once
#include <array>
#include <optional>

#include "normalizers.hpp"

namespace kinora::text {

// One part of a text: a token's id, or text that still has to be tokenized.
struct Section {
  std::string text;
  int64_t id = -1;     // below 0: text
  bool first = false;  // at the start of the whole text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(const Json& array, const Normalizer& normalizer, const std::string& where);
  // Splits at tokens in the text as given, then at tokens in the normalized rest.
  std::vector<Section> apart(const std::string& text, const Normalizer& normalizer) const;
  std::optional<int64_t> id_of(std::string_view content) const;

 private:
  struct Token {
    std::string content;
    int64_t id;
    bool single_word, left, right;
  };
  // Tokens by their first byte, the longest first.
  using Index = std::array<std::vector<Token>, 256>;
  static std::vector<Section> cut(const Section& whole, const Index& tokens);
  Index raw_, normalized_;
  Vocabulary ids_;
};

}  // namespace kinora::text
