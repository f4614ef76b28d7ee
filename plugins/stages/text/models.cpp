#include "models.hpp"

#include <algorithm>

#include "unicode.hpp"

namespace kinora::text {
namespace {

std::optional<int64_t> found(const Vocabulary& ids, std::string_view piece) {
  const auto it = ids.find(piece);
  return it == ids.end() ? std::nullopt : std::optional(it->second);
}

std::unique_ptr<PieceModel> read_word_piece(Fields& f) {
  auto ids = read_vocabulary(f.need("vocab"), f);
  const auto name = f.get<std::string>("unk_token", "[UNK]");
  const auto unknown = found(ids, name);
  if (!unknown) f.refuse("the unk_token '" + name + "' is not in 'vocab'");
  const auto longest = f.get<int64_t>("max_input_chars_per_word", 100);
  if (longest < 0) f.refuse("'max_input_chars_per_word' is below 0");
  return std::make_unique<WordPieceModel>(std::move(ids), *unknown,
                                          f.get<std::string>("continuing_subword_prefix", "##"),
                                          static_cast<size_t>(longest));
}

std::unique_ptr<PieceModel> read_unigram(Fields& f) {
  const Json& vocab = f.need("vocab");
  if (!vocab.is_array() || vocab.empty()) f.refuse("'vocab' is not an array of pieces");
  std::vector<UnigramModel::Piece> pieces;
  UnigramModel::Rules rules{std::numeric_limits<double>::infinity(), 0, false};
  for (const auto& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      f.refuse("'vocab' has an entry that is not [\"piece\", score]");
    pieces.push_back({entry[0].get<std::string>(), entry[1].get<double>()});
    rules.lowest = std::min(rules.lowest, pieces.back().score);
  }
  std::optional<int64_t> unknown;
  if (f.find("unk_id")) {
    unknown = f.get<int64_t>("unk_id");
    if (*unknown < 0 || static_cast<size_t>(*unknown) >= pieces.size())
      f.refuse("'unk_id' is not in 'vocab'");
  }
  return std::make_unique<UnigramModel>(pieces, unknown, f.get("byte_fallback", false), rules);
}

}  // namespace

std::unique_ptr<PieceModel> read_model(const Json& json, const std::string& where) {
  Fields f(json, where);
  // Files written before 2020 name no type.
  const auto type = f.get<std::string>("type", json.contains("merges") ? "BPE" : "");
  std::unique_ptr<PieceModel> out;
  if (type == "BPE") out = std::make_unique<BpeModel>(f);
  if (type == "WordPiece") out = read_word_piece(f);
  if (type == "Unigram") out = read_unigram(f);
  if (!out)
    f.refuse("the model '" + type + "' is not known; the known models are BPE, Unigram and WordPiece");
  f.done();
  return out;
}

bool BytePieces::add(std::string_view text, std::vector<int64_t>& ids) const {
  const auto id = [&](char c) { return ids_[static_cast<unsigned char>(c)]; };
  if (ids_.empty() || !std::all_of(text.begin(), text.end(), [&](char c) { return id(c).has_value(); }))
    return false;
  for (const char c : text) ids.push_back(*id(c));
  return true;
}

std::optional<int64_t> WordPieceModel::id_of(std::string_view piece) const { return found(ids_, piece); }

void WordPieceModel::encode(std::string_view word, std::vector<int64_t>& ids) const {
  std::vector<size_t> ends{0};  // of characters
  while (ends.back() < word.size()) ends.push_back(ends.back() + length_of_first(word.substr(ends.back())));
  if (ends.size() - 1 > longest_) return ids.push_back(unknown_);
  const size_t before = ids.size();
  for (size_t begin = 0; begin + 1 < ends.size();) {
    size_t end = ends.size() - 1;
    std::optional<int64_t> id;
    for (; end > begin && !id; --end) {
      const std::string piece(word.substr(ends[begin], ends[end] - ends[begin]));
      id = id_of(begin > 0 ? prefix_ + piece : piece);
    }
    if (!id) {
      ids.resize(before);
      return ids.push_back(unknown_);
    }
    ids.push_back(*id);
    begin = end + 1;
  }
}

UnigramModel::UnigramModel(const std::vector<Piece>& pieces, std::optional<int64_t> unknown,
                           bool byte_fallback, const Rules& rules)
    : unknown_(unknown), rules_(rules) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    ids_.insert_or_assign(pieces[i].text, id);
    if (pieces[i].in_text) in_text_.insert_or_assign(pieces[i].text, id);
    scores_.push_back(pieces[i].score);
    user_defined_.push_back(pieces[i].user_defined);
    longest_ = std::max(longest_, pieces[i].text.size());
  }
  if (byte_fallback) bytes_ = BytePieces([&](const std::string& s) { return id_of(s); });
}

std::optional<int64_t> UnigramModel::id_of(std::string_view piece) const { return found(ids_, piece); }

// Looks up a run of unknown neighbours as one piece, as the `tokenizers` library does.
std::optional<int64_t> UnigramModel::joined(std::string_view unknown) const {
  return rules_.sentencepiece ? std::nullopt : found(in_text_, unknown);
}

int64_t UnigramModel::need_unknown() const {
  if (!unknown_)
    throw Error(KINORA_ERROR_DATA,
                "the text has a character that no piece covers, and the model has no unknown piece");
  return *unknown_;
}

// Tries every piece that begins at `at`, and the unknown piece if none of them is a single character.
void UnigramModel::extend(std::string_view word, size_t at, std::vector<Node>& nodes) const {
  const double here = nodes[at].score;
  const size_t one = length_of_first(word.substr(at)), most = std::min(longest_, word.size() - at);
  const auto stored = [&](double x) {
    return rules_.sentencepiece ? static_cast<double>(static_cast<float>(x)) : x;
  };
  const auto reach = [&](size_t end, double score, int64_t id) {
    Node& node = nodes[end];
    if (node.begin == std::numeric_limits<size_t>::max() || score > node.score)
      node = {stored(score), at, id};
  };
  bool single = false;
  for (size_t length = one; length <= most;) {
    if (const auto id = found(in_text_, word.substr(at, length))) {
      const auto i = static_cast<size_t>(*id);
      const double score = user_defined_[i] ? static_cast<double>(length) * rules_.highest - 0.1 : scores_[i];
      reach(at + length, score + here, *id);
      single = single || length == one;
    }
    if (at + length == word.size()) break;
    length += length_of_first(word.substr(at + length));
  }
  constexpr double kPenalty = 10;
  if (!single) reach(at + one, stored(stored(rules_.lowest - kPenalty) + here), -1);
}

void UnigramModel::encode(std::string_view word, std::vector<int64_t>& ids) const {
  std::vector<Node> nodes(word.size() + 1);
  for (size_t at = 0; at < word.size(); at += length_of_first(word.substr(at))) extend(word, at, nodes);
  // Collected from the end; neighbouring unknown characters form one piece.
  std::vector<Span> spans;
  std::vector<int64_t> found_ids;
  for (size_t end = word.size(); end > 0; end = nodes[end].begin) {
    const int64_t id = unknown_ && nodes[end].id == *unknown_ ? -1 : nodes[end].id;
    if (id < 0 && !found_ids.empty() && found_ids.back() < 0) {
      spans.back().begin = nodes[end].begin;
    } else {
      spans.push_back({nodes[end].begin, end});
      found_ids.push_back(id);
    }
  }
  for (size_t i = spans.size(); i-- > 0;) {
    const auto text = word.substr(spans[i].begin, spans[i].end - spans[i].begin);
    const auto id = found_ids[i] >= 0 ? std::optional(found_ids[i]) : joined(text);
    if (id) {
      ids.push_back(*id);
    } else if (!bytes_.add(text, ids)) {
      ids.push_back(need_unknown());
    }
  }
}

}  // namespace kinora::text
