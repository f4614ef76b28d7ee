// sentencepiece's BPE: merges the neighbours whose joint piece scores highest, the leftmost of equals first.
#pragma once
#include "models.hpp"
#include "sentencepiece_spec.hpp"

namespace kinora::text {

// Words that normalizers leave unchanged and models never split.
class UserDefined {
 public:
  void add(const std::string& text) {
    if (text.empty()) return;
    texts_.emplace(text, 0);
    longest_ = std::max(longest_, text.size());
  }
  // Bytes of the longest word that is a prefix of `text`; 0: none.
  size_t match(std::string_view text) const {
    for (size_t n = std::min(longest_, text.size()); n > 0; --n)
      if (texts_.contains(text.substr(0, n))) return n;
    return 0;
  }

 private:
  Vocabulary texts_;
  size_t longest_ = 0;
};

class ScoredBpe {
 public:
  ScoredBpe(const SentencePieceSpec& spec, int64_t unknown) : unknown_(unknown) {
    for (size_t i = 0; i < spec.pieces.size(); ++i) {
      const auto& p = spec.pieces[i];
      all_.emplace(p.text, static_cast<int64_t>(i));
      if (p.type == kNormal || p.type == kUserDefined) ids_.emplace(p.text, static_cast<int64_t>(i));
      scores_.push_back(p.score);
    }
    if (spec.byte_fallback)
      bytes_ = BytePieces([&](const std::string& s) {
        const auto it = all_.find(s);
        return it == all_.end() ? std::nullopt : std::optional(it->second);
      });
  }
  void encode(std::string_view text, const UserDefined& whole, std::vector<int64_t>& out) const;

 private:
  struct Symbol {
    std::string_view text;
    size_t last, next;
    bool frozen;
  };
  std::vector<Symbol> characters(std::string_view text, const UserDefined& whole) const;
  void add(const std::vector<Symbol>& symbols, std::vector<int64_t>& out) const;

  Vocabulary all_, ids_;
  std::vector<float> scores_;
  int64_t unknown_;
  BytePieces bytes_;
};

}  // namespace kinora::text
