#include "plugins/jobs/listing/middle_name.hpp"

#include <algorithm>
#include <cstdint>

namespace kinora::core {
namespace {

constexpr unsigned kLeastLetter = 0x20, kLetters = 95;
constexpr size_t kLettersOfMiddle = 8;  // 95^8 fits into 64 bits
constexpr uint32_t kFirstOther = 0x80, kEndOfUnicode = 0x110000, kFirstSurrogate = 0xD800,
                   kEndOfSurrogates = 0xE000;

bool is_between(const std::string& low, const std::string& name, const std::string& high) {
  return low < name && (high.empty() || name < high);
}

// The middle of two names that are equal up to `at`.
std::string middle_in_ascii(const std::string& low, const std::string& high, size_t at) {
  const auto letter = [](const std::string& name, size_t i) -> uint64_t {
    if (i >= name.size()) return 0;
    return std::clamp<unsigned>(static_cast<unsigned char>(name[i]), kLeastLetter,
                                kLeastLetter + kLetters - 1) -
           kLeastLetter;
  };
  uint64_t from = 0, to = 0;
  for (size_t i = at; i < at + kLettersOfMiddle; ++i) {
    from = from * kLetters + letter(low, i);
    to = to * kLetters + (high.empty() ? kLetters - 1 : letter(high, i));
  }
  if (to <= from) return "";
  uint64_t middle = from + (to - from) / 2;
  std::string end(kLettersOfMiddle, ' ');
  for (size_t i = kLettersOfMiddle; i-- > 0; middle /= kLetters)
    end[i] = static_cast<char>(kLeastLetter + middle % kLetters);
  const std::string out = low.substr(0, at) + end;
  return is_between(low, out, high) ? out : "";
}

struct Letter {
  uint32_t code;
  size_t bytes;
};

// The letter of UTF-8 that begins here.
Letter letter_at(const std::string& name, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < name.size() ? static_cast<unsigned char>(name[i]) : 0;
  };
  const uint32_t lead = byte(at);
  const size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t code = bytes == 1 ? lead : lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (byte(at + i) & 0x3F);
  return {code, bytes};
}

// code: outside ASCII.
std::string utf8_of(uint32_t code) {
  const auto more = [&](unsigned shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), more(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), more(6), more(0)};
  return {static_cast<char>(0xF0 | code >> 18), more(12), more(6), more(0)};
}

// The same by the letters of Unicode at this place.
std::string middle_in_unicode(const std::string& low, const std::string& high, size_t at) {
  const uint32_t from = letter_at(low, at).code, to = high.empty() ? kEndOfUnicode : letter_at(high, at).code;
  uint32_t middle = to > from ? from + (to - from) / 2 : 0;
  if (middle >= kFirstSurrogate && middle < kEndOfSurrogates) middle = kFirstSurrogate - 1;
  if (middle < kFirstOther || middle >= kEndOfUnicode) return "";
  const std::string out = low.substr(0, at) + utf8_of(middle);
  return is_between(low, out, high) ? out : "";
}

}  // namespace

std::string middle_name(const std::string& low, const std::string& high) {
  size_t at = 0;
  while (at < std::min(low.size(), high.size()) && low[at] == high[at]) ++at;
  while (at > 0 && at < low.size() && (static_cast<unsigned char>(low[at]) & 0xC0) == 0x80)
    --at;  // not within a letter of UTF-8
  std::string end = high;
  for (;;) {
    if (auto out = middle_in_ascii(low, end, at); !out.empty()) return out;
    if (auto out = middle_in_unicode(low, end, at); !out.empty()) return out;
    // To the next letter outside ASCII, or behind this one: what begins as `low` up to there is before `high`.
    const bool is_other = letter_at(low, at).code >= kFirstOther;
    at += is_other ? letter_at(low, at).bytes : 0;
    while (!is_other && at < low.size() && letter_at(low, at).code < kFirstOther) ++at;
    if (at >= low.size() && !is_other) return "";
    end.clear();
  }
}

}  // namespace kinora::core
