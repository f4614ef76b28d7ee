// What a sentencepiece .model says: a protobuf of pieces, how they were trained, and how text is normalised
// (github.com/google/sentencepiece, sentencepiece_model.proto).
//
// Read here and not by libsentencepiece: charsmap and unigram model are needed for tokenizer.json anyway, so
// this message is all that the library would save.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::text {

// Types of pieces.
enum PieceType : uint64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// The message, its absent fields by default; the names are the format's.
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
  std::string charsmap;
  bool dummy_prefix = true, remove_extra = true, escape = true;
};

// Throws Error, calling the bytes `name`.
SentencePieceSpec read_sentencepiece_spec(std::string_view bytes, const std::string& name);

}  // namespace kinora::text
