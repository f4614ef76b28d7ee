#include "plugins/jobs/report/html.hpp"

#include <cstdint>

namespace kinora::core::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the well-formed UTF-8 character at the front of `s` (Unicode, table 3-7), 0 if there is none.
size_t utf8_length(std::string_view s) {
  const auto at = [&](size_t i) { return i < s.size() ? static_cast<uint8_t>(s[i]) : uint8_t{0}; };
  const auto tail = [&](size_t i) { return (at(i) & 0xC0) == 0x80; };
  const uint8_t a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return tail(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    if ((a == 0xE0 && b < 0xA0) || (a == 0xED && b > 0x9F)) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    if ((a == 0xF0 && b < 0x90) || (a == 0xF4 && b > 0x8F)) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

// C0 and C1 controls except tab and line feed, and U+202A..202E, U+2066..2069.
bool unwanted(std::string_view c) {
  const auto first = static_cast<uint8_t>(c[0]);
  if (c.size() == 1) return (first < 0x20 && first != '\t' && first != '\n') || first == 0x7F;
  if (c.size() == 2) return first == 0xC2 && static_cast<uint8_t>(c[1]) < 0xA0;
  if (c.size() != 3 || first != 0xE2) return false;
  const auto second = static_cast<uint8_t>(c[1]), third = static_cast<uint8_t>(c[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view c = text.substr(0, length);
    if (length == 0 || unwanted(c)) {
      out += kReplacement;
    } else if (const auto name = entity(c[0]); !name.empty()) {
      out += name;
    } else {
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string data_uri(std::string_view mime, std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out = "data:" + std::string(mime) + ";base64,";
  out.reserve(out.size() + bytes.size() / 3 * 4 + 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) {
      return i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : uint32_t{0};
    };
    const uint32_t three = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return out;
}

void Html::open(std::string_view tag, Attributes attributes) {
  out_.append("<").append(tag);
  for (const auto& [name, value] : attributes) {
    out_.append(" ").append(name);
    if (!value.empty()) out_.append("=\"").append(escaped(value)).append("\"");
  }
  out_ += '>';
}

void Html::close(std::string_view tag) {
  out_.append("</").append(tag).append(">");
  // Breaks lines only between block elements: elsewhere a line break is a visible space.
  if (tag.size() > 1 && tag != "span") out_ += '\n';
}

}  // namespace kinora::core::report
