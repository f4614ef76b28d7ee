// A tokenizer as published: tokenizer.json of the `tokenizers` library, or a sentencepiece .model.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fields.hpp"

namespace kinora::text {

// [any-thread] after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of a text without the special tokens around it. Bytes that are not UTF-8 count as U+FFFD.
  virtual std::vector<int64_t> pieces(std::string_view text) const = 0;
  virtual std::optional<int64_t> id_of(std::string_view piece) const = 0;
  // With them, at most max_length: of a longer text the end is left out.
  std::vector<int64_t> encode(std::string_view text, size_t max_length) const;
  // What fills up a text; none if the file does not tell.
  std::optional<int64_t> padding() const { return padding_; }

 protected:
  std::vector<int64_t> before_, after_;
  std::optional<int64_t> padding_;
};

// All throw Error, calling the file `name`, for whatever they do not know: ids would be silently wrong.
// tokenizer.json. Its own truncation and padding are left to the caller.
std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& name);
std::unique_ptr<Tokenizer> make_tokenizer(const Json& json, const std::string& name);
// A .model, Unigram or BPE. It says no special tokens around a text, so these do: begin "<s>", end "</s>".
struct Ends {
  bool begin = false, end = false;
};
std::unique_ptr<Tokenizer> read_sentencepiece(std::string_view bytes, const std::string& name,
                                              const Ends& ends);

}  // namespace kinora::text
