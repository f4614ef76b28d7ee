// CLIP's tokenizer from vocab.json and merges.txt, its form before tokenizer.json existed.
#pragma once
#include "tokenizer.hpp"

namespace kinora::text {

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
