// BERT's tokenizer from its vocab.txt alone, as published before there was a tokenizer.json.
#pragma once
#include "tokenizer.hpp"

namespace kinora::text {

// `vocabulary`: a piece a line, its id being the number of the line from 0. `name` is what errors call it.
// A name such as "[MASK]" in a text stands for that piece. lower: of an uncased model. Throws Error.
std::unique_ptr<Tokenizer> read_vocab_txt(std::string_view vocabulary, const std::string& name,
                                          bool lower = true);

}  // namespace kinora::text
