// sentencepiece's .model as a tokenizer: its own normalisation, then a unigram or BPE model.
#include <algorithm>
#include <limits>

#include "charsmap.hpp"
#include "normalizers.hpp"
#include "scored_bpe.hpp"
#include "tokenizer.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

constexpr const char* kSpace = "\u2581";

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string_view bytes, const std::string& name, const Ends& ends)
      : spec_(read_sentencepiece_spec(bytes, name)) {
    if (!spec_.charsmap.empty()) charsmap_ = Charsmap(spec_.charsmap, name);
    const int64_t unknown = index_pieces(name);
    if (spec_.model_type == 1) make_unigram(unknown);
    if (spec_.model_type == 2) bpe_ = std::make_unique<ScoredBpe>(spec_, unknown);
    if (!unigram_ && !bpe_)
      throw Error(KINORA_UNSUPPORTED,
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
  std::optional<int64_t> id_of(std::string_view piece) const override {
    const auto it = ids_.find(piece);
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  int64_t index_pieces(const std::string& name) {
    std::optional<int64_t> unknown_id;
    for (size_t i = 0; i < spec_.pieces.size(); ++i) {
      const auto& p = spec_.pieces[i];
      if (p.type < kNormal || p.type > kByte)
        throw Error(KINORA_INVALID,
                    name + ": the piece '" + p.text + "' has the unknown type " + std::to_string(p.type));
      if (p.type == kUnused)
        throw Error(KINORA_UNSUPPORTED,
                    name + ": the piece '" + p.text + "' is of type UNUSED, which is not supported");
      ids_.emplace(p.text, static_cast<int64_t>(i));
      if (p.type == kUserDefined) user_.add(p.text);
      if (p.type == kUnknown) unknown_id = static_cast<int64_t>(i);
    }
    if (!unknown_id) throw Error(KINORA_INVALID, name + ": the model has no unknown piece");
    return *unknown_id;
  }
  int64_t need(const std::string& piece, const std::string& name) const {
    if (const auto id = id_of(piece)) return *id;
    throw Error(KINORA_INVALID, name + ": the vocabulary has no piece '" + piece + "'; unset add_begin and add_end");
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
