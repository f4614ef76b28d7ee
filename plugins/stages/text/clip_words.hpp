// CLIP's tokenizer from its vocab.json and merges.txt, as published before there was a tokenizer.json.
#pragma once
#include "tokenizer.hpp"

namespace kinora::text {

struct ClipFiles {
  std::string vocab;   // {"piece": id}
  std::string merges;  // a merge a line, under a line "#version"
  Json config;         // tokenizer_config.json
  Json special;        // special_tokens_map.json, for what the configuration does not say
};

// What transformers' CLIPTokenizer makes of them; bos_token, eos_token, unk_token and pad_token are found in
// a text too. `name` is the folder, for errors. Throws Error.
std::unique_ptr<Tokenizer> read_clip_words(const ClipFiles& files, const std::string& name);

}  // namespace kinora::text
