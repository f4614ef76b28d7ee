// JSON of a tokenizer's folder, which may come from a stranger.
#pragma once
#include <string_view>

#include "tokenizer_json.hpp"

namespace kinora::text {

// Discarded if the text is not JSON, or nested so deeply that copying the value could overflow the stack.
inline Json parse_json(std::string_view text) {
  constexpr int kDeepest = 10000;  // tokenizers' own sequences have a bound of their own
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && ++depth > kDeepest)
      return Json(Json::value_t::discarded);
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
  }
  return Json::parse(text, nullptr, false);
}

}  // namespace kinora::text
