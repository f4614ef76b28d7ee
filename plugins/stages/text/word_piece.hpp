// BERT's second step: words into pieces of a vocabulary.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kinora::text {

// Greedy longest match from the left (Wu et al. 2016, arXiv 1609.08144, as BERT has it): "unhappily" -> "un"
// "##happi" "##ly". A word of which some part matches nothing, or with more than 100 characters, is [UNK].
// [any-thread] after construction.
class WordPiece {
 public:
  // `vocabulary`: a piece a line, its id being the number of the line from 0. `name` is what errors call it.
  // Throws Error.
  WordPiece(std::string_view vocabulary, const std::string& name);
  // [CLS] pieces [SEP], at most `max_length` of them: of a longer text the end is left out. A name such as
  // "[MASK]" in the text stands for that piece, as in the published tokenizers.
  std::vector<int64_t> encode(std::string_view utf8, size_t max_length) const;
  size_t size() const { return ids_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  struct Special {
    std::string text;
    int64_t id;
  };
  int64_t need(const char* piece, const std::string& name) const;
  const Special* special_at(std::string_view text) const;
  // Stops once there are `most` ids.
  void add_text(std::string_view utf8, size_t most, std::vector<int64_t>& ids) const;
  void add_word(std::u32string_view word, std::vector<int64_t>& ids) const;

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::vector<Special> specials_;
  int64_t unknown_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace kinora::text
