// JSON as Python's json.dumps writes it, with NaN and Infinity, which no JSON parser takes.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// The text with null in place of NaN, Infinity and -Infinity outside of strings; "" if it has none of them.
inline std::string without_nan(std::string_view text) {
  std::string out;
  bool has_any = false;
  for (size_t at = 0; at < text.size();) {
    size_t size = 1;
    std::string_view part;
    if (text[at] == '"') {
      while (at + size < text.size() && text[at + size] != '"') size += text[at + size] == '\\' ? 2 : 1;
      size = std::min(size + 1, text.size() - at);
    } else {
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
        if (text.substr(at, word.size()) == word) part = word;
    }
    has_any |= !part.empty();
    out += part.empty() ? text.substr(at, size) : "null";
    at += part.empty() ? size : part.size();
  }
  return has_any ? out : "";
}

}  // namespace kinora

KINORA_SDK_END
