#include "word_piece.hpp"

#include "basic_tokenizer.hpp"
#include "kinora/error.hpp"

namespace kinora::text {

WordPiece::WordPiece(std::string_view vocabulary, const std::string& name) {
  int64_t line = 0;
  for (size_t at = 0; at < vocabulary.size(); ++line) {
    const size_t end = std::min(vocabulary.find('\n', at), vocabulary.size());
    std::string_view piece = vocabulary.substr(at, end - at);
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    ids_.insert_or_assign(std::string(piece), line);  // of a piece that comes twice, the last counts
    at = end + 1;
  }
  unknown_ = need("[UNK]", name);
  begin_ = need("[CLS]", name);
  end_ = need("[SEP]", name);
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto at = ids_.find(special); at != ids_.end()) specials_.push_back({special, at->second});
}

int64_t WordPiece::need(const char* piece, const std::string& name) const {
  const auto at = ids_.find(piece);
  if (at != ids_.end()) return at->second;
  throw Error(KINORA_INVALID, name + ": no line " + piece + " among " + std::to_string(ids_.size()) +
                                  "; give the vocab.txt of a BERT tokenizer");
}

const WordPiece::Special* WordPiece::special_at(std::string_view text) const {
  for (const auto& special : specials_)
    if (text.starts_with(special.text)) return &special;
  return nullptr;
}

std::vector<int64_t> WordPiece::encode(std::string_view utf8, size_t max_length) const {
  const size_t most = max_length - 1;  // without [SEP]
  std::vector<int64_t> ids{begin_};
  size_t begin = 0;
  for (size_t at = 0; at < utf8.size() && ids.size() < most; ++at) {
    const Special* special = utf8[at] == '[' ? special_at(utf8.substr(at)) : nullptr;
    if (!special) continue;
    add_text(utf8.substr(begin, at - begin), most, ids);
    ids.push_back(special->id);
    begin = at + special->text.size();
    at = begin - 1;
  }
  if (ids.size() < most) add_text(utf8.substr(begin), most, ids);
  if (ids.size() > most) ids.resize(most);
  ids.push_back(end_);
  return ids;
}

void WordPiece::add_text(std::string_view utf8, size_t most, std::vector<int64_t>& ids) const {
  for (const auto& word : words(normalised(utf8))) {
    if (ids.size() >= most) return;
    add_word(word, ids);
  }
}

void WordPiece::add_word(std::u32string_view word, std::vector<int64_t>& ids) const {
  constexpr size_t kLongest = 100;  // max_input_chars_per_word of the published tokenizers
  if (word.size() > kLongest) return ids.push_back(unknown_);
  const size_t first = ids.size();
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    auto found = ids_.end();
    for (; end > begin; --end) {
      const std::string piece = to_utf8(word.substr(begin, end - begin));
      found = ids_.find(begin > 0 ? "##" + piece : piece);
      if (found != ids_.end()) break;
    }
    if (found == ids_.end()) {
      ids.resize(first);
      return ids.push_back(unknown_);
    }
    ids.push_back(found->second);
    begin = end;
  }
}

}  // namespace kinora::text
