// Members of JSON objects that stages and users have written: of another type they are as good as missing.
#pragma once
#include <string>

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

}  // namespace kinora::core
