// BERT's tokenizer from its vocab.txt alone, its form before tokenizer.json existed.
#pragma once
#include "tokenizer.hpp"

namespace kinora::text {

// vocabulary: one piece per line; its id is the line number from 0. name: the file's name in errors. A special name
// such as "[MASK]" in a text stands for that piece. lower: the model is uncased. Throws Error.
std::unique_ptr<Tokenizer> read_vocab_txt(std::string_view vocabulary, const std::string& name,
                                          bool lower = true);

}  // namespace kinora::text
