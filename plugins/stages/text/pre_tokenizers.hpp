// Pre-tokenizers of tokenizer.json: text into the words that a model cuts into pieces.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fields.hpp"
#include "regex.hpp"

namespace kinora::text {

struct Word {
  std::string text;
  bool first = false;  // it begins where the whole text does
};
using Words = std::vector<Word>;
using PreTokenizer = std::function<Words(const Words&)>;

// Throws Error that names what is not known. `where` begins its message.
PreTokenizer read_pre_tokenizer(const Json& json, const std::string& where, int depth = 0);

// What becomes of the matches that cut a text.
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// The pieces of `text`; matches are in order and do not overlap. invert: what lies between them are the
// matches.
std::vector<Span> split(std::string_view text, const std::vector<Span>& matches, Delimiter how,
                        bool invert = false);

}  // namespace kinora::text
