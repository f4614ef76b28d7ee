// Members of JSON objects that stages and users have written: of another type they are as good as missing.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

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

// 0 if there is none.
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

// JSON text that anybody may have written; discarded if it is none, or nested deeper than facts are: what
// writes such a value calls itself once a level, and a stack has an end.
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

// The object in a file that anybody may have written; an empty one if it is missing, or is none.
inline nlohmann::json object_in_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  auto value = parse_facts(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!value.is_object()) value = nlohmann::json::object();
  return value;
}

}  // namespace kinora::core
