#include "clean.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "repair.hpp"
#include "unicode.hpp"

extern "C" const char kinora_html_entities[], kinora_html_entities_end[];  // html_entities.tsv

namespace kinora::text {
namespace {

struct HtmlEntity {
  std::string_view name;  // with its semicolon, if any
  std::string text;
};

HtmlEntity read_entity(std::string_view line) {
  HtmlEntity out{line.substr(0, line.find('\t')), {}};
  for (const char *at = line.data() + out.name.size(), *end = line.data() + line.size(); at < end;) {
    uint32_t point = 0;
    at = std::from_chars(at + 1, end, point, 16).ptr;
    append(out.text, static_cast<char32_t>(point));
  }
  return out;
}

// Sorted by name, as the file is. Read at the first use.
const std::vector<HtmlEntity>& entities() {
  static const std::vector<HtmlEntity> kEntities = [] {
    std::vector<HtmlEntity> out;
    std::string_view file(kinora_html_entities,
                          static_cast<size_t>(kinora_html_entities_end - kinora_html_entities));
    for (size_t end; (end = file.find('\n')) != file.npos; file.remove_prefix(end + 1))
      if (!file.starts_with('#')) out.push_back(read_entity(file.substr(0, end)));
    return out;
  }();
  return kEntities;
}

const HtmlEntity* entity(std::string_view name) {
  const auto at = std::lower_bound(entities().begin(), entities().end(), name,
                                   [](const HtmlEntity& e, std::string_view n) { return e.name < n; });
  return at != entities().end() && at->name == name ? &*at : nullptr;
}

// Characters of windows-1252 at 0x80 to 0x9F, which pages mean by these numbers.
constexpr std::array<char32_t, 32> kWindows{0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                            0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                            0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                            0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

void append_number(std::string& out, uint64_t n) {
  if (n >= 0x80 && n <= 0x9F) return append(out, kWindows[n - 0x80]);
  if (n == 0 || (n >= 0xD800 && n <= 0xDFFF) || n > 0x10FFFF) return append(out, U'\uFFFD');
  const bool no_character = (n >= 1 && n <= 8) || n == 0xB || (n >= 0xE && n <= 0x1F) || n == 0x7F ||
                            (n >= 0xFDD0 && n <= 0xFDEF) || (n & 0xFFFE) == 0xFFFE;
  if (!no_character) append(out, static_cast<char32_t>(n));
}

int digit(char c, bool hex) {
  if (c >= '0' && c <= '9') return c - '0';
  if (hex && c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (hex && c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads a number; `text` begins after "&#". Returns the bytes read; 0: not a number.
size_t read_number(std::string_view text, std::string& out) {
  const bool hex = !text.empty() && (text[0] == 'x' || text[0] == 'X');
  const size_t begin = hex ? 1 : 0;
  size_t end = begin;
  uint64_t n = 0;
  for (int d; end < text.size() && (d = digit(text[end], hex)) >= 0; ++end)
    n = std::min<uint64_t>(n * (hex ? 16 : 10) + static_cast<uint64_t>(d), 0x110000);
  if (end == begin) return 0;
  append_number(out, n);
  return end + (end < text.size() && text[end] == ';');
}

// Reads a name; `text` begins after "&". Returns the bytes of the longest name; 0: none.
size_t read_name(std::string_view text, std::string& out) {
  constexpr size_t kLongest = 33;
  for (size_t n = std::min(text.size(), kLongest); n > 1; --n)
    if (const HtmlEntity* e = entity(text.substr(0, n))) {
      out += e->text;
      return n;
    }
  return 0;
}

// Python's definition, which has four more control characters than Unicode's.
bool is_blank(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

}  // namespace

std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char c = text[0];
    text.remove_prefix(1);
    size_t n = 0;
    if (c == '&' && text.starts_with('#')) {
      n = read_number(text.substr(1), out);
      if (n) ++n;
    } else if (c == '&') {
      n = read_name(text, out);
    }
    if (n == 0) out += c;
    text.remove_prefix(n);
  }
  return out;
}

std::string collapsed(std::string_view text) {
  std::string out;
  for (bool blank = false; !text.empty();) {
    const size_t length = length_of_first(text);
    const std::string_view one = text.substr(0, length);
    if (is_blank(take(text))) {
      blank = !out.empty();
      continue;
    }
    if (blank) out += ' ';
    out += one;
    blank = false;
  }
  return out;
}

std::optional<std::string_view> entity_named(std::string_view name) {
  const HtmlEntity* found = entity(name);
  return found ? std::optional(found->text) : std::nullopt;
}

std::string cleaned(std::string_view text) { return collapsed(unescaped(unescaped(repaired(text)))); }

}  // namespace kinora::text
