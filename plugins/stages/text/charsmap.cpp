#include "charsmap.hpp"

#include "kinora/error.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

uint32_t read(std::string_view bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i) out |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return out;
}

uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& name) {
  const uint64_t size = bytes.size() < 4 ? 0 : read(bytes, 0);
  if (bytes.size() < 4 || size == 0 || size % 4 || size > bytes.size() - 4)
    throw Error(KINORA_ERROR_INVALID, name + ": the charsmap declares " + std::to_string(size) +
                                          " bytes of trie in " + std::to_string(bytes.size()) +
                                          "; the file is damaged, download it again");
  for (size_t i = 0; i < size; i += 4) trie_.push_back(read(bytes, 4 + i));
  replacements_ = bytes.substr(4 + size);
}

std::string_view Charsmap::at(size_t place) const {
  if (place >= replacements_.size()) return {};
  const std::string_view rest = std::string_view(replacements_).substr(place);
  return rest.substr(0, rest.find('\0'));
}

template <class F>
void Charsmap::matches(std::string_view text, F each) const {
  if (trie_.empty()) return;
  uint32_t node = offset(trie_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= trie_.size()) return;
    const uint32_t unit = trie_[node];
    if ((unit & 0x800000FFU) != byte) return;
    node ^= offset(unit);
    if (!(unit & 0x100U)) continue;
    if (node >= trie_.size() || !each(i + 1, trie_[node] & 0x7FFFFFFFU)) return;
  }
}

std::optional<Charsmap::Match> Charsmap::shortest(std::string_view text) const {
  std::optional<Match> out;
  matches(text, [&](size_t length, size_t place) {
    out = Match{length, at(place)};
    return false;
  });
  return out;
}

std::optional<Charsmap::Match> Charsmap::longest(std::string_view text) const {
  std::optional<Match> out;
  matches(text, [&](size_t length, size_t place) {
    out = Match{length, at(place)};
    return true;
  });
  return out;
}

// Replaces the whole grapheme by the replacement of its shortest matching prefix, as the library does: the
// published models' ids depend on it.
std::string Charsmap::apply(std::string_view text) const {
  constexpr size_t kLongest = 5;  // bytes of a grapheme that is looked up as a whole
  std::string out;
  while (!text.empty()) {
    std::string_view grapheme = text.substr(0, length_of_grapheme(text));
    text.remove_prefix(grapheme.size());
    if (const auto whole = grapheme.size() <= kLongest ? shortest(grapheme) : std::nullopt) {
      out += whole->replacement;
      continue;
    }
    while (!grapheme.empty()) {
      const std::string_view one = grapheme.substr(0, length_of_first(grapheme));
      grapheme.remove_prefix(one.size());
      const auto match = shortest(one);
      out += match ? match->replacement : one;
    }
  }
  return out;
}

}  // namespace kinora::text
