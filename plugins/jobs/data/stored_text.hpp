// Text and JSON in the fields of samples that another program stored.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text_encoding.hpp"

namespace kinora::core {

// The text by utf8_text(); the bytes themselves if that fails. name: as there.
inline std::string as_utf8(std::string bytes, std::string_view name) {
  const auto is_plain = [](unsigned char c) { return c != 0 && c < 0x80; };  // ASCII, the usual case
  if (std::all_of(bytes.begin(), bytes.end(), is_plain)) return bytes;
  auto text = utf8_text(bytes, name);
  return text ? *std::move(text) : bytes;
}

}  // namespace kinora::core
