#include "error_text.hpp"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

namespace kinora::endpoint {
namespace {

constexpr size_t kShown = 200;  // characters
constexpr size_t kTelling = 6;  // characters of a key that identify it

bool part_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '*' || c == '.' ||
         c == '+' || c == '/' || c == '=';
}

// Hides every word that contains `piece`.
std::string hide(std::string text, std::string_view piece) {
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at)) {
    size_t begin = at, end = at + piece.size();
    while (begin > 0 && part_of_word(text[begin - 1])) --begin;
    while (end < text.size() && part_of_word(text[end])) ++end;
    text.replace(begin, end - begin, "[key]");
    at = begin + 5;
  }
  return text;
}

// Replaces bytes that are not UTF-8 by U+FFFD.
std::string valid(std::string_view text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace

std::string shown(std::string_view body, std::string_view key) {
  // Longer than the shown text, so that a key at its end is still complete.
  std::string text = valid(body.substr(0, 8 * kShown + key.size()));
  if (!key.empty()) text = hide(std::move(text), key.substr(0, std::min(kTelling, key.size())));
  std::string line;
  for (const char c : text) {
    const bool space = static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
    if (!space) line += c;
    if (space && !line.empty() && line.back() != ' ') line += ' ';
  }
  size_t end = 0, characters = 0;
  while (end < line.size() && characters < kShown) {
    ++end;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) ++end;
    ++characters;
  }
  if (end < line.size()) line = line.substr(0, end) + "...";
  return line;
}

}  // namespace kinora::endpoint
