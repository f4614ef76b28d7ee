// A published tokenizer: tokenizer.json of the `tokenizers` library, or a sentencepiece .model.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder.hpp"
#include "models.hpp"

namespace kinora::text {

// [any-thread] after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Returns the ids of a text without the special tokens around it. Bytes that are not UTF-8 count as U+FFFD.
  virtual std::vector<int64_t> pieces(std::string_view text) const = 0;
  // As pieces(), but no special token is matched: for text of users. first: the prompt begins with this text.
  virtual std::vector<int64_t> ordinary(std::string_view text, bool first) const = 0;
  virtual std::optional<int64_t> id_of(std::string_view piece) const = 0;
  // Throws Error for a decoder that is not known.
  virtual std::unique_ptr<Decoder> decoder() const = 0;
  // Returns at most max_length ids, with special tokens; the end of a longer text is cut off.
  std::vector<int64_t> encode(std::string_view text, size_t max_length) const;
  // Id of the padding token; none if the file does not name one.
  std::optional<int64_t> padding() const { return padding_; }

 protected:
  std::vector<int64_t> before_, after_;
  std::optional<int64_t> padding_;
};

// All readers throw Error, which calls the file `name`, for anything unknown, because ids would be silently
// wrong. Reads a tokenizer.json. The caller handles truncation and padding.
std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& name);
// model: instead of the member "model" of `json`; null: that member.
std::unique_ptr<Tokenizer> make_tokenizer(const Json& json, const std::string& name,
                                          std::unique_ptr<PieceModel> model = nullptr);
// Reads a .model, Unigram or BPE. The file does not say which special tokens surround a text; `Ends` does:
// begin "<s>", end "</s>".
struct Ends {
  bool begin = false, end = false;
  bool unused = false;  // only pieces() and decoder() are called
};
std::unique_ptr<Tokenizer> read_sentencepiece(std::string_view bytes, const std::string& name,
                                              const Ends& ends);

}  // namespace kinora::text
