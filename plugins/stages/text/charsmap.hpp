// A sentencepiece charsmap: replacements of character sequences, "precompiled" into a double-array trie.
//
// Bytes: uint32 n; n bytes of trie, units of uint32; then the replacements, each ending with a zero. All
// little-endian. A unit of the trie (darts-clone): bits 0-7 and 31 are its label, bit 8 says that it has a
// value, bits 10-30 are the offset to its children, shifted left by 8 if bit 9 is set. A value unit: bits
// 0-30 are the position of the replacement.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::text {

class Charsmap {
 public:
  Charsmap() = default;
  // Throws Error, which calls the bytes `name`. Lookups stay within the bytes, whatever they hold.
  Charsmap(std::string_view bytes, const std::string& name);

  struct Match {
    size_t length;  // of the key, in bytes
    std::string_view replacement;
  };
  // Return the shortest and the longest key that is a prefix of `text`.
  std::optional<Match> shortest(std::string_view text) const;
  std::optional<Match> longest(std::string_view text) const;

  // Applies the map as the `tokenizers` library does: by grapheme, else by character.
  std::string apply(std::string_view text) const;

 private:
  template <class F>
  void matches(std::string_view text, F each) const;  // each(length, position) -> whether to continue
  std::string_view at(size_t place) const;
  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace kinora::text
