#include "apps/studio/search.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace kinora::studio {
namespace {

// Runs of letters, digits and non-ASCII bytes, in lower case.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128 || std::isalnum(byte)) {
      out.back() += static_cast<char>(std::tolower(byte));
    } else if (!out.back().empty()) {
      out.emplace_back();
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

// 2: a whole word of the clip; 1: the beginning of a word; 0: no match.
int match(const std::string& word, const std::vector<std::string>& words) {
  int best = 0;
  for (const auto& other : words)
    if (other.starts_with(word)) best = std::max(best, other.size() == word.size() ? 2 : 1);
  return best;
}

}  // namespace

std::vector<size_t> search_words(const Catalogue& catalogue, const EditsOf& edits, const std::string& text) {
  const auto wanted = words_of(text);
  struct Hit {
    size_t clip;
    std::vector<int> matches;
    double rank = 0;
  };
  std::vector<Hit> hits;
  std::vector<double> found(wanted.size(), 0);  // number of clips that contain the word
  for (size_t i = 0; i < catalogue.clips.size(); ++i) {
    const Clip& clip = catalogue.clips[i];
    const Change change = edits(clip);
    const auto words = words_of(change.caption.value_or(clip.caption) + " " + clip.key + " " + clip.reason +
                                " " + change.reason.value_or(""));
    Hit hit{i, {}, 0};
    for (const auto& word : wanted) hit.matches.push_back(match(word, words));
    for (size_t w = 0; w < wanted.size(); ++w) found[w] += hit.matches[w] > 0;
    if (std::find(hit.matches.begin(), hit.matches.end(), 0) == hit.matches.end())
      hits.push_back(std::move(hit));
  }
  for (auto& hit : hits)
    for (size_t w = 0; w < wanted.size(); ++w)
      hit.rank += hit.matches[w] * std::log(1 + static_cast<double>(catalogue.clips.size()) / found[w]);
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.rank > b.rank; });
  std::vector<size_t> out;
  for (const auto& hit : hits) out.push_back(hit.clip);
  return out;
}

}  // namespace kinora::studio
