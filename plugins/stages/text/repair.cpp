#include "repair.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "byte_patterns.hpp"
#include "clean.hpp"
#include "regex.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

using Points = std::u32string;

// A character of one byte each.
struct Encoding {
  int is_sloppy;  // a byte without a character is the character with its number, and U+FFFD is byte 0x1A
  int is_mac_roman;
  std::array<char32_t, 128> upper;  // of bytes from 0x80 on
};
struct Entity {
  std::string_view name, text;
};
struct Ligature {
  char32_t one;
  std::string_view parts;
};
#include "repair_tables.inc"

Points points_of(std::string_view text) {
  Points out;
  while (!text.empty()) out += take(text);
  return out;
}

// Replaces each character by what `of` says; nothing: it stays.
template <class Of>
std::string mapped(std::string_view text, Of of) {
  std::string out;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, length_of_first(text));
    const std::optional<std::string> other = of(take(text));
    out += other ? std::string_view(*other) : one;
  }
  return out;
}

// Replaces each match by what `by` says.
std::string rewritten(const Regex& regex, std::string_view text,
                      const std::function<std::string(std::string_view)>& by) {
  std::string out;
  size_t from = 0;
  for (const Span& match : regex.find_all(text)) {
    out.append(text.substr(from, match.begin - from))
        .append(by(text.substr(match.begin, match.end - match.begin)));
    from = match.end;
  }
  return out.append(text.substr(from));
}

bool is_bad(std::string_view text) {
  static const Regex regex(kBad);
  return !regex.find_all(text).empty();
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The bytes that are read as this text in the encoding; nothing if no bytes are.
std::optional<std::string> encoded(const Points& text, const Encoding& in) {
  std::string out;
  for (const char32_t c : text) {
    if (c < 0x80 && !(c == 0x1A && in.is_sloppy)) {
      out += static_cast<char>(c);
    } else if (c == 0xFFFD && in.is_sloppy) {
      out += '\x1A';
    } else {
      const auto* at = std::find(in.upper.begin(), in.upper.end(), c);
      if (c < 0x80 || at == in.upper.end()) return std::nullopt;
      out += static_cast<char>(0x80 + (at - in.upper.begin()));
    }
  }
  return out;
}

constexpr const Encoding& kWindows1252 = kEncodings[1];

// The text that was read in an encoding of one byte a character although it is UTF-8; nothing if it was not.
std::optional<std::string> as_utf8(const Points& text, const Encoding& in) {
  auto bytes = encoded(text, in);
  if (!bytes) return std::nullopt;
  if (!in.is_mac_roman && has_lost_a0(*bytes)) *bytes = restored_a0(*bytes);
  if (in.is_sloppy) *bytes = without_lossy_sequences(*bytes);
  return decoded_variants(*bytes);
}

std::string without_c1(std::string_view text) {
  return mapped(text, [](char32_t c) -> std::optional<std::string> {
    if (c < 0x80 || c > 0x9F) return std::nullopt;
    std::string out;
    append(out, kWindows1252.upper[c - 0x80]);
    return out;
  });
}

std::string with_right_encoding(std::string text);

// UTF-8 in a part of the text only.
std::string without_embedded_utf8(const std::string& text) {
  static const Regex regex(kLooksLikeUtf8);
  return rewritten(regex, text, [&](std::string_view part) {
    return part.size() < text.size() && is_bad(part) ? with_right_encoding(std::string(part))
                                                     : std::string(part);
  });
}

// One step; the same text if there is none.
std::string with_better_encoding(const std::string& text) {
  if (is_ascii(text) || !is_bad(text)) return text;
  const Points points = points_of(text);
  for (const auto& encoding : kEncodings)
    if (auto found = as_utf8(points, encoding)) return *std::move(found);
  if (auto fixed = without_embedded_utf8(text); fixed != text) return fixed;
  // Controls of C1 were Windows-1252, whether all of the text is Latin-1 or not.
  return without_c1(text);
}

std::string with_right_encoding(std::string text) {
  for (;;) {
    std::string next = with_better_encoding(text);
    if (next == text) return text;
    text = std::move(next);
  }
}

// "&NAME;" in HTML's or in capital letters, and "&#NUMBER;", with their semicolons.
std::string without_references(std::string_view text) {
  static const Regex regex("&#?[0-9A-Za-z]{1,24};");
  return rewritten(regex, text, [](std::string_view found) -> std::string {
    const std::string_view name = found.substr(1);
    if (name.starts_with('#')) {
      std::string out = unescaped(found);
      return out.find(';') == out.npos ? out : std::string(found);
    }
    if (const auto known = entity_named(name)) return std::string(*known);
    const auto* capital = std::lower_bound(std::begin(kCapitals), std::end(kCapitals), name,
                                           [](const Entity& e, std::string_view n) { return e.name < n; });
    return std::string(capital != std::end(kCapitals) && capital->name == name ? capital->text : found);
  });
}

std::optional<std::string> parts_of_ligature(char32_t c) {
  const auto* at = std::find_if(std::begin(kLigatures), std::end(kLigatures),
                                [&](const Ligature& l) { return l.one == c; });
  return at == std::end(kLigatures) ? std::nullopt : std::optional(std::string(at->parts));
}

std::optional<std::string> usual_width(char32_t c) {
  if (c == 0x3000) return " ";
  if (c < 0xFF01 || c >= 0xFFF0) return std::nullopt;
  std::string one;
  append(one, c);
  return normal_form(one, Form::nfkc);
}

std::optional<std::string> straight_quote(char32_t c) {
  if (c == 0x2BC || (c >= 0x2018 && c <= 0x201B)) return "'";
  return c >= 0x201C && c <= 0x201F ? std::optional<std::string>("\"") : std::nullopt;
}

std::optional<std::string> line_end(char32_t c) {
  return c == '\r' || c == 0x2028 || c == 0x2029 || c == 0x85 ? std::optional<std::string>("\n")
                                                              : std::nullopt;
}

// Says which characters ftfy removes; C1 and those that shape writing stay.
std::optional<std::string> nothing_for_control(char32_t c) {
  const bool goes = c < 9 || c == 0xB || (c >= 0xE && c < 0x20) || c == 0x7F || (c >= 0x206A && c < 0x2070) ||
                    c == 0xFEFF || (c >= 0xFFF9 && c < 0xFFFD);
  return goes ? std::optional<std::string>("") : std::nullopt;
}

std::string without_terminal_escapes(std::string_view text) {
  static const Regex regex("\\x1b\\[(?:\\d|;)*[a-zA-Z]");
  return rewritten(regex, text, [](std::string_view) { return std::string(); });
}

std::string replaced_all(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Repeats all repairs until they change nothing.
std::string repaired_part(std::string text, bool unescapes) {
  for (;;) {
    const std::string before = text;
    if (unescapes) text = without_references(text);
    text = without_c1(with_right_encoding(std::move(text)));
    text = mapped(mapped(mapped(text, parts_of_ligature), usual_width), straight_quote);
    text = mapped(replaced_all(std::move(text), "\r\n", "\n"), line_end);
    text = mapped(without_terminal_escapes(text), nothing_for_control);
    text = normal_form(text, Form::nfc);
    if (text == before) return text;
  }
}

// Line by line, with a longer one in pieces of a million characters.
size_t length_of_part(std::string_view text) {
  constexpr size_t kMost = 1'000'000;
  const size_t end = text.find('\n');
  const size_t line = end == text.npos ? text.size() : end + 1;
  if (line <= kMost) return line;
  std::string_view rest = text.substr(0, line);
  for (size_t n = 0; n < kMost && !rest.empty(); ++n) take(rest);
  return line - rest.size();
}

}  // namespace

std::string repaired(std::string_view given) {
  const std::string valid = valid_utf8(given);
  std::string out;
  bool unescapes = true;  // until a line has a "<", after which the text counts as HTML to the end
  for (std::string_view text = valid; !text.empty();) {
    const std::string_view part = text.substr(0, length_of_part(text));
    unescapes = unescapes && part.find('<') == part.npos;
    out += repaired_part(std::string(part), unescapes);
    text.remove_prefix(part.size());
  }
  return out;
}

}  // namespace kinora::text
