#include "basic_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <utf8proc.h>

namespace kinora::text {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Unassigned code points are none: which they are changes with every version of Unicode.
bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO ||
         k == UTF8PROC_CATEGORY_CS;
}

bool is_space(char32_t c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return true;
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

// The blocks of ideographs that BERT's tokenizer names; not kana or Hangul, which are written with blanks or
// in words.
bool is_ideograph(char32_t c) {
  constexpr std::array<std::array<char32_t, 2>, 8> kBlocks{{{0x4E00, 0x9FFF},
                                                            {0x3400, 0x4DBF},
                                                            {0x20000, 0x2A6DF},
                                                            {0x2A700, 0x2B73F},
                                                            {0x2B740, 0x2B81F},
                                                            {0x2B920, 0x2CEAF},
                                                            {0xF900, 0xFAFF},
                                                            {0x2F800, 0x2FA1F}}};
  return std::any_of(kBlocks.begin(), kBlocks.end(), [&](const auto& b) { return c >= b[0] && c <= b[1]; });
}

// ASCII's symbols count as punctuation too, as "$" and "^".
bool is_punctuation(char32_t c) {
  if (c < 128)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

// Decomposes, drops non-spacing marks, lowers the case.
std::u32string stripped(std::u32string_view text) {
  std::vector<utf8proc_int32_t> parts;
  std::array<utf8proc_int32_t, 32> one;  // more than any character decomposes into
  for (const char32_t c : text) {
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), one.data(), one.size(),
                                           static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
    if (n > 0)
      parts.insert(parts.end(), one.begin(), one.begin() + std::min<utf8proc_ssize_t>(n, one.size()));
  }
  std::u32string out;
  for (const utf8proc_int32_t c : parts)
    if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) out += static_cast<char32_t>(utf8proc_tolower(c));
  return out;
}

}  // namespace

std::u32string normalised(std::string_view utf8) {
  std::u32string cleaned;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  auto left = static_cast<utf8proc_ssize_t>(utf8.size());
  while (left > 0) {
    utf8proc_int32_t read = 0;
    const utf8proc_ssize_t n = std::max<utf8proc_ssize_t>(utf8proc_iterate(at, left, &read), 1);
    at += n;
    left -= n;
    const auto c = static_cast<char32_t>(read);
    if (read <= 0 || c == 0xFFFD || is_control(c)) continue;
    if (is_ideograph(c)) {
      cleaned += {U' ', c, U' '};
    } else {
      cleaned += is_space(c) ? U' ' : c;
    }
  }
  return stripped(cleaned);
}

std::vector<std::u32string> words(std::u32string_view text) {
  std::vector<std::u32string> out;
  bool open = false;  // the last word may grow
  for (const char32_t c : text) {
    const bool mark = is_punctuation(c);
    if (is_space(c)) {
      open = false;
    } else if (open && !mark) {
      out.back() += c;
    } else {
      out.emplace_back(1, c);
      open = !mark;
    }
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  std::array<utf8proc_uint8_t, 4> bytes;
  for (const char32_t c : text) {
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n));
  }
  return out;
}

}  // namespace kinora::text
