// Tokenizer models: map a word to ids of pieces. Each gives exactly the ids of the `tokenizers` library.
#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "regex.hpp"
#include "tokenizer_json.hpp"

namespace kinora::text {

// [any-thread] after construction.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  // Appends the ids of `word`, valid UTF-8. Throws Error if an unknown piece is needed and there is none.
  virtual void encode(std::string_view word, std::vector<int64_t>& ids) const = 0;
  virtual std::optional<int64_t> id_of(std::string_view piece) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

// Reads the model of a tokenizer.json. Throws an Error that names anything unknown.
std::unique_ptr<PieceModel> read_model(const Json& json, const std::string& where);

// Ids of "<0x00>" to "<0xFF>", the fallback for the bytes of text that no piece covers.
class BytePieces {
 public:
  BytePieces() = default;
  template <class Find>  // Find(string) -> optional<int64_t>
  explicit BytePieces(Find find) {
    constexpr const char* kHex = "0123456789ABCDEF";
    for (int b = 0; b < 256; ++b)
      ids_.push_back(find(std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">"));
  }
  // Adds the ids of the bytes of `text` if every byte has one; returns whether it did.
  bool add(std::string_view text, std::vector<int64_t>& ids) const;

 private:
  std::vector<std::optional<int64_t>> ids_;  // none: no fallback
};

// Greedy longest match from the left (Wu et al. 2016, arXiv 1609.08144, as BERT has it): "unhappily" -> "un"
// "##happi" "##ly". A word is unknown if some part of it matches nothing or if it is too long.
class WordPieceModel final : public PieceModel {
 public:
  WordPieceModel(Vocabulary ids, int64_t unknown, std::string prefix = "##", size_t longest = 100)
      : ids_(std::move(ids)), unknown_(unknown), prefix_(std::move(prefix)), longest_(longest) {}
  void encode(std::string_view word, std::vector<int64_t>& ids) const override;
  std::optional<int64_t> id_of(std::string_view piece) const override;
  const Vocabulary& vocabulary() const override { return ids_; }

 private:
  Vocabulary ids_;
  int64_t unknown_;
  std::string prefix_;
  size_t longest_;  // characters
};

// The most probable segmentation into independent pieces (Kudo 2018, arXiv 1804.10959), by Viterbi.
class UnigramModel final : public PieceModel {
 public:
  struct Piece {
    std::string text;
    double score = 0;
    bool in_text = true;        // may be matched in a text
    bool user_defined = false;  // sentencepiece: always matched
  };
  // Which scores set the unknown piece's score, and whether to follow sentencepiece where it differs: sums in
  // float32.
  struct Rules {
    double lowest = 0, highest = 0;
    bool sentencepiece = false;
  };
  UnigramModel(const std::vector<Piece>& pieces, std::optional<int64_t> unknown, bool byte_fallback,
               const Rules&);
  void encode(std::string_view word, std::vector<int64_t>& ids) const override;
  std::optional<int64_t> id_of(std::string_view piece) const override;
  const Vocabulary& vocabulary() const override { return ids_; }

 private:
  struct Node {
    double score = 0;
    size_t begin = std::numeric_limits<size_t>::max();
    int64_t id = -1;  // -1: unknown
  };
  void extend(std::string_view word, size_t at, std::vector<Node>& nodes) const;
  std::optional<int64_t> joined(std::string_view unknown) const;
  int64_t need_unknown() const;

  Vocabulary ids_;      // of all pieces
  Vocabulary in_text_;  // of the pieces that may be matched
  std::vector<double> scores_;
  std::vector<bool> user_defined_;
  std::optional<int64_t> unknown_;
  BytePieces bytes_;
  Rules rules_;
  size_t longest_ = 0;  // bytes
};

// Byte-pair encoding (Sennrich et al. 2015, arXiv 1508.07909): merges neighbours by rules, best rule first.
class BpeModel final : public PieceModel {
 public:
  explicit BpeModel(Fields& model);
  void encode(std::string_view word, std::vector<int64_t>& ids) const override;
  std::optional<int64_t> id_of(std::string_view piece) const override;
  const Vocabulary& vocabulary() const override { return ids_; }

 private:
  struct Merge {
    size_t rank;
    int64_t id;
  };
  struct PairHash {
    size_t operator()(const std::pair<int64_t, int64_t>& p) const {
      return std::hash<int64_t>{}(p.first * 1000003 ^ p.second);
    }
  };
  void read_merges(const Json& merges, const Fields& model);
  std::vector<int64_t> characters(std::string_view word) const;
  const Merge* merge_of(int64_t left, int64_t right) const;

  Vocabulary ids_;
  std::unordered_map<std::pair<int64_t, int64_t>, Merge, PairHash> merges_;
  std::string prefix_, suffix_;
  std::optional<int64_t> unknown_;
  bool fuse_unknown_ = false, whole_first_ = false;
  BytePieces bytes_;
};

// Reads {"piece": id}. `model` is the object that contains it, for errors.
Vocabulary read_vocabulary(const Json& vocab, const Fields& model);

}  // namespace kinora::text
