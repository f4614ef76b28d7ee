// Normalizers of tokenizer.json: map text to text.
#pragma once
#include <functional>
#include <string>

#include "fields.hpp"

namespace kinora::text {

using Normalizer = std::function<std::string(std::string)>;

// Throws an Error that names anything unknown; its message begins with `where`.
Normalizer read_normalizer(const Json& json, const std::string& where, int depth = 0);

// Steps of BERT's normalizer, in this order.
struct BertRules {
  bool clean = true, ideographs = true, strip_accents = true, lower = true;
};
std::string bert_normalised(std::string_view text, const BertRules& rules);

std::string replaced(const std::string& text, const std::string& what, const std::string& by);

}  // namespace kinora::text
