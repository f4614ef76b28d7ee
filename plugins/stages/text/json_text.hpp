// JSON of a tokenizer's folder, which may come from a stranger.
#pragma once
#include <string_view>

#include "tokenizer_json.hpp"

namespace kinora::text {

// Discarded if the text is not JSON, or nested so deeply that copying the value could overflow the stack.
inline Json parse_json(std::string_view text) {
  constexpr int kDeepest = 10000;  // a copy calls itself once a level
  bool is_too_deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        is_too_deep |= depth > kDeepest;
        return depth <= kDeepest;
      },
      false);
  if (is_too_deep) return Json(Json::value_t::discarded);
  return json;
}

}  // namespace kinora::text
