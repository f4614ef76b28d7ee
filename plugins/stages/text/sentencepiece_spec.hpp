// Contents of a sentencepiece .model: a protobuf of the pieces, their training and the normalisation of text
// (github.com/google/sentencepiece, sentencepiece_model.proto).
//
// libsentencepiece is not used: tokenizer.json needs the charsmap and the unigram model anyway, so the
// library would only save the parsing of this message.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::text {

// Types of pieces.
enum PieceType : uint64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// The message, with defaults for absent fields; the names are the format's.
struct SentencePieceSpec {
  struct Piece {
    std::string text;
    float score = 0;
    uint64_t type = kNormal;
  };
  std::vector<Piece> pieces;
  uint64_t model_type = 1;
  bool byte_fallback = false, space_is_suffix = false;
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
  std::string unknown_text = " \u2047 ";  // what decoding writes for the unknown piece
  std::string charsmap;
  bool dummy_prefix = true, remove_extra = true, escape = true;
};

// Throws Error, which calls the bytes `name`.
SentencePieceSpec read_sentencepiece_spec(std::string_view bytes, const std::string& name);

}  // namespace kinora::text
