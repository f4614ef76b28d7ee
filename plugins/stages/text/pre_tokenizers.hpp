// Pre-tokenizers of tokenizer.json: split text into the words that a model cuts into pieces.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fields.hpp"
#include "regex.hpp"

namespace kinora::text {

struct Word {
  std::string text;
  bool first = false;  // at the start of the whole text
};
using Words = std::vector<Word>;
using PreTokenizer = std::function<Words(const Words&)>;

// Throws an Error that names anything unknown; its message begins with `where`.
PreTokenizer read_pre_tokenizer(const Json& json, const std::string& where, int depth = 0);

// How matches that split a text are treated.
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// Splits `text` at matches, which are in order and do not overlap. invert: the text between them is the match.
std::vector<Span> split(std::string_view text, const std::vector<Span>& matches, Delimiter how,
                        bool invert = false);

}  // namespace kinora::text
