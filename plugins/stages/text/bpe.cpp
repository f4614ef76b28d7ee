#include <queue>

#include "models.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

// Parses "a b", or ["a", "b"] as written since version 0.20 of the library.
std::pair<std::string, std::string> pair_of(const Json& merge, const Fields& model) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const size_t blank = text.find(' ');
    if (blank != text.npos && text.find(' ', blank + 1) == text.npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  model.refuse("a merge must be \"a b\" or [\"a\", \"b\"], got " + merge.dump());
}

}  // namespace

Vocabulary read_vocabulary(const Json& vocab, const Fields& model) {
  if (!vocab.is_object()) model.refuse("'vocab' is not an object");
  Vocabulary out;
  for (const auto& [piece, id] : vocab.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0)
      model.refuse("the id of '" + piece + "' must be a number from 0 on");
    out.emplace(piece, id.get<int64_t>());
  }
  return out;
}

BpeModel::BpeModel(Fields& f)
    : ids_(read_vocabulary(f.need("vocab"), f)),
      prefix_(f.get<std::string>("continuing_subword_prefix", "")),
      suffix_(f.get<std::string>("end_of_word_suffix", "")),
      fuse_unknown_(f.get("fuse_unk", false)),
      whole_first_(f.get("ignore_merges", false)) {
  if (const Json* dropout = f.find("dropout"); dropout && *dropout != 0)
    f.refuse("'dropout' is not supported, because ids must not vary");
  if (f.find("unk_token")) {
    const auto name = f.get<std::string>("unk_token");
    unknown_ = id_of(name);
    if (!unknown_) f.refuse("the unk_token '" + name + "' is not in 'vocab'");
  }
  if (f.get("byte_fallback", false)) bytes_ = BytePieces([&](const std::string& s) { return id_of(s); });
  read_merges(f.need("merges"), f);
}

void BpeModel::read_merges(const Json& merges, const Fields& f) {
  if (!merges.is_array()) f.refuse("'merges' is not an array");
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = pair_of(merges[rank], f);
    if (!right.starts_with(prefix_))
      f.refuse("the merge '" + left + " " + right + "' has no prefix '" + prefix_ + "'");
    const auto a = id_of(left), b = id_of(right), made = id_of(left + right.substr(prefix_.size()));
    if (!a || !b || !made)
      f.refuse("the merge '" + left + " " + right + "' has pieces that are not in 'vocab'");
    merges_.insert_or_assign({*a, *b}, Merge{rank, *made});
  }
}

std::optional<int64_t> BpeModel::id_of(std::string_view piece) const {
  const auto it = ids_.find(piece);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const BpeModel::Merge* BpeModel::merge_of(int64_t left, int64_t right) const {
  const auto it = merges_.find({left, right});
  return it == merges_.end() ? nullptr : &it->second;
}

std::vector<int64_t> BpeModel::characters(std::string_view word) const {
  std::vector<int64_t> out;
  bool unknown = false;  // the last character is unknown and its id not yet written
  for (auto rest = word; !rest.empty();) {
    const bool first = rest.size() == word.size();
    const size_t length = length_of_first(rest);
    std::string piece = (first ? "" : prefix_) + std::string(rest.substr(0, length));
    rest.remove_prefix(length);
    if (rest.empty()) piece += suffix_;
    const auto id = id_of(piece);
    if (!id && bytes_.add(piece, out)) continue;
    if (unknown && (id || !fuse_unknown_)) {
      out.push_back(*unknown_);
      unknown = false;
    }
    if (id) {
      out.push_back(*id);
    } else {
      unknown = unknown_.has_value();  // without an unknown piece, unknown characters are dropped
    }
  }
  if (unknown) out.push_back(*unknown_);
  return out;
}

void BpeModel::encode(std::string_view word, std::vector<int64_t>& out) const {
  if (const auto whole = whole_first_ ? id_of(word) : std::nullopt) return out.push_back(*whole);
  struct Symbol {
    int64_t id;
    size_t last, next;  // neighbours
    bool gone;
  };
  struct Step {
    size_t rank, at;
    int64_t id;
    bool operator>(const Step& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  const auto ids = characters(word);
  const size_t n = ids.size();
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < n; ++i) symbols.push_back({ids[i], i ? i - 1 : n, i + 1, false});
  std::priority_queue<Step, std::vector<Step>, std::greater<>> steps;
  const auto consider = [&](size_t left) {
    if (left >= n || symbols[left].next >= n) return;
    if (const Merge* m = merge_of(symbols[left].id, symbols[symbols[left].next].id))
      steps.push({m->rank, left, m->id});
  };
  for (size_t i = 0; i < n; ++i) consider(i);
  while (!steps.empty()) {
    const Step step = steps.top();
    steps.pop();
    Symbol& left = symbols[step.at];
    if (left.gone || left.next >= n) continue;
    Symbol& right = symbols[left.next];
    const Merge* m = merge_of(left.id, right.id);
    if (!m || m->id != step.id) continue;  // an earlier step changed one of them
    left.id = step.id;
    right.gone = true;
    left.next = right.next;
    if (left.next < n) symbols[left.next].last = step.at;
    consider(left.last);
    consider(step.at);
  }
  for (const Symbol& s : symbols)
    if (!s.gone) out.push_back(s.id);
}

}  // namespace kinora::text
