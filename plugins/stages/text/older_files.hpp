// Tokenizers in the files from before tokenizer.json existed. Each is written as a tokenizer.json and read as
// one.
#pragma once
#include "tokenizer.hpp"

namespace kinora::text {

// BERT's vocab.txt. vocabulary: one piece per line; its id is the line number from 0. name: the file's name
// in errors. A special name such as "[MASK]" in a text stands for that piece. lower: the model is uncased.
// Throws Error.
std::unique_ptr<Tokenizer> read_vocab_txt(std::string_view vocabulary, const std::string& name,
                                          bool lower = true);

// CLIP's vocab.json and merges.txt: the content of the files in one folder.
struct ClipFiles {
  std::string vocab;   // {"piece": id}
  std::string merges;  // one merge per line, after a line "#version"
  Json config;         // tokenizer_config.json
  Json special;        // special_tokens_map.json, for tokens that the configuration omits
};

// Equals transformers' CLIPTokenizer for these files; bos_token, eos_token, unk_token and pad_token are also
// matched in a text. `name` is the folder, for errors. Throws Error.
std::unique_ptr<Tokenizer> read_clip_words(const ClipFiles& files, const std::string& name);

}  // namespace kinora::text
