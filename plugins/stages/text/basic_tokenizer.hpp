// BERT's first step: text into words and punctuation marks, lower-case and without accents.
//
// What BasicTokenizer of the uncased models does (github.com/google-research/bert, tokenization.py), in the
// order of the `tokenizers` library: control characters removed and white space made blanks, blanks around
// CJK characters, canonical decomposition without non-spacing marks, lower case; then words end at blanks,
// and each punctuation mark is a word.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kinora::text {

// Normalised text as code points. Bytes that are not UTF-8 are left out, as U+FFFD is.
std::u32string normalised(std::string_view utf8);

// The words of normalised text.
std::vector<std::u32string> words(std::u32string_view text);

std::string to_utf8(std::u32string_view text);

}  // namespace kinora::text
