#define PCRE2_CODE_UNIT_WIDTH 8
#include "regex.hpp"

#include <array>
#include <pcre2.h>

#include "kinora/error.hpp"

namespace kinora::text {
namespace {

// PCRE2's own \s includes U+180E, and its \w excludes marks.
std::string with_unicode_classes(const std::string& pattern) {
  std::string out;
  int depth = 0;  // nesting of brackets
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      depth += c == '[' ? 1 : c == ']' && depth > 0 ? -1 : 0;
      out += c;
      continue;
    }
    const char next = pattern[++i];
    const std::string word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
    if (next == 's') {
      out += R"(\p{White_Space})";
    } else if (next == 'S') {
      out += R"(\P{White_Space})";
    } else if (next == 'd') {
      out += R"(\p{Nd})";
    } else if (next == 'D') {
      out += R"(\P{Nd})";
    } else if (next == 'w') {
      out += depth ? word : "[" + word + "]";
    } else if (next == 'W' && !depth) {
      out += "[^" + word + "]";
    } else {
      out += {c, next};
    }
  }
  return out;
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* p) const { Free(p); }
};
template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Freed<T, Free>>;

}  // namespace

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::string text = with_unicode_classes(pattern);
  auto* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!code)
    throw Error(KINORA_ERROR_INVALID, "the pattern '" + pattern + "' is not valid: " + message_of(error));
  code_.reset(code, pcre2_code_free);
}

std::vector<Span> Regex::find_all(std::string_view text) const {
  // Enough for any tokenizer's pattern; a hostile pattern stops here instead of running for hours.
  constexpr uint32_t kSteps = 1U << 20, kKiB = 16U << 10;
  const Owned<pcre2_match_data, pcre2_match_data_free> found(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  const Owned<pcre2_match_context, pcre2_match_context_free> limits(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(limits.get(), kSteps);
  pcre2_set_heap_limit(limits.get(), kKiB);
  std::vector<Span> out;
  for (size_t from = 0; from <= text.size();) {
    const int n = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                              PCRE2_NO_UTF_CHECK, found.get(), limits.get());
    if (n == PCRE2_ERROR_NOMATCH) break;
    if (n < 0)
      throw Error(KINORA_ERROR_DATA, "the pattern '" + pattern_ + "' failed on a text: " + message_of(n));
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(found.get());
    if (at[1] > at[0] && at[0] >= from) out.push_back({at[0], at[1]});  // an empty piece would be dropped
    from = std::max(at[1], from);
    if (at[1] <= at[0])  // empty match: advance one character
      do ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
  }
  return out;
}

}  // namespace kinora::text
