// JSON that stages and users have written: nothing in it can be relied on. A member of another type counts as
// missing.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/regular_file.hpp"

namespace kinora::core {

inline const nlohmann::json& object_in(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none = nlohmann::json::object();
  if (!object.is_object()) return none;
  const auto at = object.find(key);
  return at != object.end() && at->is_object() ? *at : none;
}

inline std::string text_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// 0 if missing.
inline double number_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : 0;
}

inline bool flag_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return false;
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

// JSON text from an untrusted source; discarded if it is invalid, or nested more deeply than facts are:
// writing such a value recurses once per level and could overflow the stack.
inline nlohmann::json parse_facts(std::string_view text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && ++depth > kDeepest)
      return nlohmann::json(nlohmann::json::value_t::discarded);
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
  }
  return nlohmann::json::parse(text, nullptr, false);
}

// Makes text fit for JSON: replaces each byte that is not UTF-8 by U+FFFD.
inline std::string valid_utf8(std::string_view text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

// The object in a file from an untrusted source; an empty one if it is missing, not a regular file or not an object.
inline nlohmann::json object_in_file(const std::filesystem::path& file) {
  const auto text = read_regular_file(file);
  auto value = text ? parse_facts(*text) : nlohmann::json::object();
  if (!value.is_object()) value = nlohmann::json::object();
  return value;
}

}  // namespace kinora::core
