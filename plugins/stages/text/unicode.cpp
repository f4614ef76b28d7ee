#include "unicode.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

#include "kinora/error.hpp"

namespace kinora::text {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
const utf8proc_uint8_t* bytes(std::string_view s) {
  return reinterpret_cast<const utf8proc_uint8_t*>(s.data());
}

}  // namespace

char32_t take(std::string_view& text) {
  utf8proc_int32_t c = 0;
  const auto n = utf8proc_iterate(bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &c);
  text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 1);
  return n > 0 ? static_cast<char32_t>(c) : U'\uFFFD';
}

size_t length_of_first(std::string_view text) {
  const size_t all = text.size();
  take(text);
  return all - text.size();
}

void append(std::string& to, char32_t c) {
  std::array<utf8proc_uint8_t, 4> out;
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), out.data());
  to.append(reinterpret_cast<const char*>(out.data()), static_cast<size_t>(n));
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) append(out, take(bytes));
  return out;
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Unassigned code points are not control characters, because they differ between versions of Unicode.
bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO ||
         k == UTF8PROC_CATEGORY_CS;
}

bool is_punctuation(char32_t c) {
  if (c < 128)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

bool is_non_spacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

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

std::string normal_form(std::string_view text, Form form) {
  int how =
      UTF8PROC_STABLE | (form == Form::nfd || form == Form::nfkd ? UTF8PROC_DECOMPOSE : UTF8PROC_COMPOSE);
  if (form == Form::nfkc || form == Form::nfkd) how |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const auto n = utf8proc_map(bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                              static_cast<utf8proc_option_t>(how));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> mine(made, std::free);
  if (n < 0) throw Error(KINORA_ERROR_DATA, std::string("text cannot be normalised: ") + utf8proc_errmsg(n));
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(n)};
}

std::string lower_case(std::string_view text) {
  constexpr char32_t kDottedI = 0x130;  // the only letter whose lower case is two characters
  std::string out;
  while (!text.empty()) {
    const char32_t c = take(text);
    if (c == kDottedI) {
      out += "i\u0307";
    } else {
      append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

size_t length_of_grapheme(std::string_view text) {
  const size_t all = text.size();
  auto last = static_cast<utf8proc_int32_t>(take(text));
  for (utf8proc_int32_t state = 0; !text.empty();) {
    auto rest = text;
    const auto c = static_cast<utf8proc_int32_t>(take(rest));
    if (utf8proc_grapheme_break_stateful(last, c, &state)) break;
    text = rest;
    last = c;
  }
  return all - text.size();
}

}  // namespace kinora::text
