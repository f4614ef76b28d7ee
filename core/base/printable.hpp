// Text that may quote a stranger's file, made fit for a terminal.
#pragma once
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kinora::core {

// The text with its control characters as hexadecimal escapes, except for line breaks and tabs.
inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t')
      out += c;
    else
      out += fmt::format("\\x{:02x}", byte);
  }
  return out;
}

}  // namespace kinora::core
