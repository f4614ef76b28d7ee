// Ids of a tokenizer back to text.
#pragma once
#include <optional>
#include <span>

#include "tokenizer_json.hpp"

namespace kinora::text {

// The text of one id.
struct IdText {
  std::string text;
  bool special = false;  // may be left out
  bool fixed = false;    // not in the model's alphabet: ByteLevel and sentencepiece leave it as it is
  bool is_byte = false;  // one byte, maybe a part of a character
};
using IdTexts = std::unordered_map<int64_t, IdText>;

// Changes the text of one id. first: the text begins with this id.
using DecodeStep = std::function<void(IdText&, bool first)>;

struct DecodeRules {
  std::vector<DecodeStep> steps;
  bool mark_each_byte = false;    // U+FFFD for each byte that is not UTF-8; false: for each broken character
  bool begins_with_text = false;  // the text begins at its first byte; false: at its first id
};

// The member "decoder" of a tokenizer.json; null: the pieces with blanks between them, as the `tokenizers` library
// writes them. Throws an Error that names anything unknown; its message begins with `where`.
DecodeRules read_decoder(const Json& json, const std::string& where);

// The byte that the piece "<0xE4>" stands for.
std::optional<char> byte_of(std::string_view piece);

// The state of a text between two runs of its ids.
struct Unfinished {
  bool begun = false;
  std::string bytes;  // of a character whose end is missing
};

// [any-thread] after construction.
class Decoder {
 public:
  // name: the tokenizer's file, for errors.
  Decoder(std::string name, IdTexts texts, DecodeRules rules)
      : name_(std::move(name)), texts_(std::move(texts)), rules_(std::move(rules)) {}
  // Returns the text of the next ids, valid UTF-8. Bytes of a character whose end is missing stay in `kept`, and
  // become U+FFFD with `last`. The texts of all runs joined are the text of all ids, wherever the runs end. Throws
  // Error(KINORA_ERROR_DATA) for an id without a text; `kept` is then undefined.
  std::string decode(std::span<const int64_t> ids, bool skip_special, bool last, Unfinished& kept) const;

 private:
  std::string name_;
  IdTexts texts_;
  DecodeRules rules_;
};

}  // namespace kinora::text
