#include "verdict.hpp"

#include <algorithm>

#include "error_text.hpp"

namespace kinora::endpoint {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

Verdict verdict_of(const Json& json) {
  const auto wrong = [&](const char* what) {
    return Error(KINORA_DATA, std::string("the answer's ") + what + ": " + shown(dump(json), ""));
  };
  if (!json.contains("keep") || !json["keep"].is_boolean()) throw wrong("keep is not true or false");
  Verdict out;
  out.keep = json["keep"].get<bool>();
  if (json.contains("reason") && json["reason"].is_string()) out.reason = json["reason"].get<std::string>();
  if (!json.contains("labels")) return out;
  if (!json["labels"].is_array()) throw wrong("labels are not a list");
  for (const auto& label : json["labels"]) {
    if (!label.is_string()) throw wrong("labels are not all words");
    out.labels.push_back(lower_case(label.get<std::string>()));
  }
  return out;
}

}  // namespace kinora::endpoint
