#include "byte_patterns.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "unicode.hpp"

namespace kinora::text {
namespace {

using std::string_view;

// One byte of a pattern: pairs of a first and a last byte.
using ByteClass = string_view;
using Pattern = std::vector<ByteClass>;

bool is_in(char c, ByteClass pairs) {
  const auto byte = static_cast<unsigned char>(c);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (byte >= static_cast<unsigned char>(pairs[i]) && byte <= static_cast<unsigned char>(pairs[i + 1]))
      return true;
  return false;
}

// Bytes of the first of the patterns that the bytes begin with; 0: none.
size_t matched(string_view bytes, std::span<const Pattern> patterns) {
  for (const auto& pattern : patterns) {
    if (bytes.size() < pattern.size()) continue;
    bool fits = true;
    for (size_t i = 0; fits && i < pattern.size(); ++i) fits = is_in(bytes[i], pattern[i]);
    if (fits) return pattern.size();
  }
  return 0;
}

// Replaces matches from left to right.
template <class By>
std::string rewritten(string_view bytes, std::span<const Pattern> patterns, By by) {
  std::string out;
  while (!bytes.empty()) {
    const size_t n = matched(bytes, patterns);
    if (n == 0)
      out += bytes[0];
    else
      out += by(bytes.substr(0, n));
    bytes.remove_prefix(std::max<size_t>(n, 1));
  }
  return out;
}

constexpr ByteClass kBlank = "  ", kRest = "\x80\xBF", kNoA0 = "\x80\x84\x86\x9F\xA1\xBF", kLost = "\x1A\x1A",
                    kLostOrMark = "\x1A\x1A??", kLostOrRest = "\x1A\x1A\x80\xBF",
                    kAnyOrRest = "\x1A\x1A??\x80\xBF";

std::span<const Pattern> altered() {
  static const std::vector<Pattern> out{{"\xC2\xC3\xC5\xC5\xCE\xCE\xD0\xD0\xD9\xD9", kBlank},
                                        {"\xE2\xE3", kBlank, kNoA0},
                                        {"\xE0\xE3", kNoA0, kBlank},
                                        {"\xF0\xF0", kBlank, kRest, kRest},
                                        {"\xF0\xF0", kRest, kBlank, kRest},
                                        {"\xF0\xF0", kRest, kRest, kBlank}};
  return out;
}

std::span<const Pattern> lossy() {
  constexpr ByteClass kHigh = "\xA0\xAF", kLow = "\xB0\xBF", kEd = "\xED\xED", kThree = "\xE0\xEF",
                      kFour = "\xF0\xF4";
  static const std::vector<Pattern> out{{"\xC2\xDF", kLost},
                                        {"\xC2\xC3", "??"},
                                        {kEd, kHigh, kLostOrMark, kEd, kLow, kAnyOrRest},
                                        {kEd, kHigh, kAnyOrRest, kEd, kLow, kLostOrMark},
                                        {kThree, kLostOrMark, kLostOrRest},
                                        {kThree, kLostOrRest, kLostOrMark},
                                        {kFour, kLostOrMark, kLostOrRest, kLostOrRest},
                                        {kFour, kLostOrRest, kLostOrMark, kLostOrRest},
                                        {kFour, kLostOrRest, kLostOrRest, kLostOrMark},
                                        {kLost}};
  return out;
}

bool is_utf8(string_view bytes) {
  while (!bytes.empty()) {
    const string_view before = bytes;
    if (take(bytes) == 0xFFFD && !before.starts_with("\xEF\xBF\xBD")) return false;
  }
  return true;
}

// As "$" of Python's expressions: at the end, and before a line feed there.
bool ends(string_view bytes) { return bytes.empty() || bytes == "\n"; }

// Matches a byte of the class, or the end, in place; `bytes` keeps what follows it.
bool passes(string_view& bytes, ByteClass one) {
  if (!bytes.empty() && is_in(bytes[0], one)) {
    bytes.remove_prefix(1);
    return true;
  }
  return ends(bytes);
}

bool begins_as_null(string_view bytes) {
  if (!bytes.starts_with('\xC0')) return false;
  bytes.remove_prefix(1);
  return passes(bytes, "\x80\x80");
}

bool begins_as_pair(string_view bytes) {
  if (!bytes.starts_with('\xED')) return false;
  bytes.remove_prefix(1);
  return passes(bytes, "\xA0\xAF") && passes(bytes, kRest) && passes(bytes, "\xED\xED") &&
         passes(bytes, "\xB0\xBF") && passes(bytes, kRest);
}

bool begins_as_surrogate(string_view bytes) {
  if (!bytes.starts_with('\xED')) return false;
  bytes.remove_prefix(1);
  return passes(bytes, "\xA0\xBF") && passes(bytes, kRest);
}

char32_t character_of_pair(string_view b) {
  const auto bits = [&](size_t i, unsigned mask) { return static_cast<unsigned char>(b[i]) & mask; };
  return (bits(1, 0x0F) << 16) + (bits(2, 0x3F) << 10) + (bits(4, 0x0F) << 6) + bits(5, 0x3F) + 0x10000;
}

}  // namespace

bool has_lost_a0(const std::string& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i)
    if (matched(string_view(bytes).substr(i), altered()) > 0) return true;
  return false;
}

std::string restored_a0(const std::string& bytes) {
  std::string words;
  for (size_t i = 0; i < bytes.size(); ++i) {
    words += bytes[i];
    const string_view rest = string_view(bytes).substr(i + 1);
    if (bytes[i] != '\xC3' || !rest.starts_with(' ')) continue;
    constexpr string_view kPartsOfWords[] = {" ", "quele", "quela", "quilo", "s "};
    if (std::none_of(std::begin(kPartsOfWords), std::end(kPartsOfWords),
                     [&](string_view part) { return rest.substr(1).starts_with(part); }))
      words += '\xA0';
  }
  return rewritten(words, altered(), [](string_view match) {
    std::string out(match);
    std::replace(out.begin(), out.end(), ' ', '\xA0');
    return out;
  });
}

std::string without_lossy_sequences(const std::string& bytes) {
  return rewritten(bytes, lossy(), [](string_view) { return "\uFFFD"; });
}

std::optional<std::string> decoded_variants(const std::string& bytes) {
  const bool has_variants = bytes.find('\xED') != bytes.npos || bytes.find('\xC0') != bytes.npos;
  std::string out;
  for (string_view rest = bytes; !rest.empty();) {
    size_t cut = has_variants ? 0 : rest.size();
    while (cut < rest.size() && !begins_as_null(rest.substr(cut)) && !begins_as_pair(rest.substr(cut)) &&
           !begins_as_surrogate(rest.substr(cut)))
      ++cut;
    const string_view whole = rest.substr(0, cut);
    if (!is_utf8(whole)) return std::nullopt;
    out += whole;
    rest.remove_prefix(cut);
    if (rest.empty()) break;
    if (rest[0] == '\xC0' && rest.size() > 1) {
      out += '\0';
      rest.remove_prefix(2);
    } else if (rest[0] == '\xED' && rest.size() >= 6 && begins_as_pair(rest)) {
      append(out, character_of_pair(rest));
      rest.remove_prefix(6);
    } else {  // a Hangul syllable at the end, or no UTF-8
      if (!is_utf8(rest)) return std::nullopt;
      out += rest;
      break;
    }
  }
  return out;
}

}  // namespace kinora::text
