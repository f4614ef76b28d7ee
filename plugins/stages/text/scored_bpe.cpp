#include "scored_bpe.hpp"

#include <algorithm>
#include <queue>

#include "unicode.hpp"

namespace kinora::text {

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

}  // namespace kinora::text
