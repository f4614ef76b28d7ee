// sentencepiece's .model as a tokenizer: its own normalisation, then a unigram or BPE model.
#include <algorithm>
#include <limits>
#include <queue>

#include "charsmap.hpp"
#include "models.hpp"
#include "sentencepiece_spec.hpp"
#include "tokenizer.hpp"
#include "tokenizer_json.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

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

// sentencepiece's BPE: merges the neighbours whose joint piece scores highest, the leftmost of equals first.
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

std::vector<ScoredBpe::Symbol> ScoredBpe::characters(std::string_view text, const UserDefined& whole) const {
  std::vector<Symbol> out;
  while (!text.empty()) {
    const size_t fixed = whole.match(text), n = fixed ? fixed : length_of_first(text);
    out.push_back({text.substr(0, n), out.size() - 1, out.size() + 1, fixed != 0});
    text.remove_prefix(n);
  }
  return out;
}

void ScoredBpe::encode(std::string_view text, const UserDefined& whole, std::vector<int64_t>& out) const {
  struct Step {
    float score;
    size_t left, right, size;
    bool operator<(const Step& o) const { return score != o.score ? score < o.score : left > o.left; }
  };
  auto symbols = characters(text, whole);
  const size_t n = symbols.size();
  std::priority_queue<Step> steps;
  const auto joined = [&](size_t l, size_t r) {
    return std::string_view(symbols[l].text.data(), symbols[l].text.size() + symbols[r].text.size());
  };
  const auto consider = [&](size_t left, size_t right) {
    if (left >= n || right >= n || symbols[left].frozen || symbols[right].frozen) return;
    const auto piece = joined(left, right);
    if (const auto it = ids_.find(piece); it != ids_.end())
      steps.push({scores_[static_cast<size_t>(it->second)], left, right, piece.size()});
  };
  for (size_t i = 1; i < n; ++i) consider(i - 1, i);
  while (!steps.empty()) {
    const Step step = steps.top();
    steps.pop();
    Symbol &left = symbols[step.left], &right = symbols[step.right];
    if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != step.size)
      continue;
    left.text = joined(step.left, step.right);
    left.next = right.next;
    if (right.next < n) symbols[right.next].last = step.left;
    right.text = {};
    consider(left.last, step.left);
    consider(step.left, left.next);
  }
  add(symbols, out);
}

void ScoredBpe::add(const std::vector<Symbol>& symbols, std::vector<int64_t>& out) const {
  bool unknown = false;  // neighbouring unknown characters form one piece
  for (const Symbol& s : symbols) {
    if (s.text.empty()) continue;
    const auto it = all_.find(s.text);
    const bool known = it != all_.end() && it->second != unknown_;
    if (known) {
      out.push_back(it->second);
    } else if (!bytes_.add(s.text, out) && !unknown) {
      out.push_back(unknown_);
    }
    unknown = !known;
  }
}

constexpr const char* kSpace = "\u2581";

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string_view bytes, const std::string& name, const Ends& ends)
      : name_(name), spec_(read_sentencepiece_spec(bytes, name)) {
    if (!spec_.charsmap.empty()) charsmap_ = Charsmap(spec_.charsmap, name);
    const int64_t unknown = index_pieces(name);
    if (spec_.model_type == 1) make_unigram(unknown);
    if (spec_.model_type == 2) bpe_ = std::make_unique<ScoredBpe>(spec_, unknown);
    if (!unigram_ && !bpe_)
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  name + ": expected a unigram or a BPE model; word and character models are not supported");
    padding_ = id_of(spec_.pad);
    if (ends.begin) before_.push_back(need(spec_.bos, name));
    if (ends.end) after_.push_back(need(spec_.eos, name));
  }
  std::vector<int64_t> pieces(std::string_view text) const override {
    std::vector<int64_t> out;
    const std::string normal = valid_utf8(normalised(text));
    if (normal.empty()) return out;
    if (bpe_) {
      bpe_->encode(normal, user_, out);
    } else {
      unigram_->encode(normal, out);
    }
    return out;
  }
  // No text stands for a control piece.
  std::vector<int64_t> ordinary(std::string_view text, bool) const override { return pieces(text); }
  std::optional<int64_t> id_of(std::string_view piece) const override {
    const auto it = ids_.find(piece);
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  std::unique_ptr<Decoder> decoder() const override {
    IdTexts texts;
    for (size_t i = 0; i < spec_.pieces.size(); ++i) {
      const auto& p = spec_.pieces[i];
      IdText t{p.text, p.type == kControl, p.type != kNormal && p.type != kUserDefined};
      if (p.type == kUnknown) t.text = spec_.unknown_text;
      if (const auto byte = p.type == kByte ? byte_of(p.text) : std::nullopt) t.text = *byte;
      texts.emplace(static_cast<int64_t>(i), std::move(t));
    }
    const auto step = [drops = spec_.dummy_prefix || spec_.remove_extra](IdText& t, bool first) {
      if (t.fixed) return;
      if (first && drops && t.text.starts_with(kSpace)) t.text.erase(0, std::string_view(kSpace).size());
      t.text = replaced(t.text, kSpace, " ");
    };
    return std::make_unique<Decoder>(name_, std::move(texts), DecodeRules{{step}, true, spec_.remove_extra});
  }

 private:
  int64_t index_pieces(const std::string& name) {
    std::optional<int64_t> unknown_id;
    for (size_t i = 0; i < spec_.pieces.size(); ++i) {
      const auto& p = spec_.pieces[i];
      if (p.type < kNormal || p.type > kByte)
        throw Error(KINORA_ERROR_INVALID,
                    name + ": the piece '" + p.text + "' has the unknown type " + std::to_string(p.type));
      if (p.type == kUnused)
        throw Error(KINORA_ERROR_UNSUPPORTED,
                    name + ": the piece '" + p.text + "' is of type UNUSED, which is not supported");
      ids_.emplace(p.text, static_cast<int64_t>(i));
      if (p.type == kUserDefined) user_.add(p.text);
      if (p.type == kUnknown) unknown_id = static_cast<int64_t>(i);
    }
    if (!unknown_id) throw Error(KINORA_ERROR_INVALID, name + ": the model has no unknown piece");
    return *unknown_id;
  }
  int64_t need(const std::string& piece, const std::string& name) const {
    if (const auto id = id_of(piece)) return *id;
    throw Error(KINORA_ERROR_INVALID,
                name + ": the vocabulary has no piece '" + piece + "'; unset add_begin and add_end");
  }
  void make_unigram(int64_t unknown) {
    std::vector<UnigramModel::Piece> pieces;
    float lowest = std::numeric_limits<float>::max(), highest = std::numeric_limits<float>::min();
    for (const auto& p : spec_.pieces) {
      pieces.push_back(
          {p.text, p.score, p.type == kNormal || p.type == kUserDefined, p.type == kUserDefined});
      if (p.type != kNormal) continue;
      lowest = std::min(lowest, p.score);
      highest = std::max(highest, p.score);
    }
    unigram_ = std::make_unique<UnigramModel>(pieces, unknown, spec_.byte_fallback,
                                              UnigramModel::Rules{lowest, highest, true});
  }
  // Removes the first unit of `text` and returns its replacement.
  std::string first_of(std::string_view& text) const {
    const auto match = charsmap_.longest(text);
    const size_t whole = user_.match(text);
    const size_t n = whole ? whole : match ? match->length : length_of_first(text);
    std::string_view one = text.substr(0, n);
    text.remove_prefix(n);
    return std::string(!whole && match ? match->replacement : one);
  }
  std::string normalised(std::string_view text) const {
    const std::string space = spec_.escape ? kSpace : " ";
    std::string out;
    bool after_space = spec_.remove_extra, empty = true;
    while (!text.empty()) {
      std::string one = first_of(text);
      if (empty && spec_.remove_extra && one == " ") continue;
      if (empty && spec_.dummy_prefix && !spec_.space_is_suffix) out = space;
      empty = false;
      if (after_space) one.erase(0, one.find_first_not_of(' '));
      if (!one.empty()) after_space = one.ends_with(' ');
      if (!spec_.remove_extra) after_space = false;
      out += spec_.escape ? replaced(one, " ", kSpace) : one;
    }
    if (empty) return "";
    while (spec_.remove_extra && out.ends_with(space)) out.resize(out.size() - space.size());
    return spec_.dummy_prefix && spec_.space_is_suffix ? out + space : out;
  }

  std::string name_;
  SentencePieceSpec spec_;
  Charsmap charsmap_;
  UserDefined user_;
  Vocabulary ids_;
  std::unique_ptr<UnigramModel> unigram_;
  std::unique_ptr<ScoredBpe> bpe_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentencepiece(std::string_view bytes, const std::string& name,
                                              const Ends& ends) {
  return std::make_unique<SentencePiece>(bytes, name, ends);
}

}  // namespace kinora::text
