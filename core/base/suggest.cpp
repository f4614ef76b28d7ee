#include "core/base/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace kinora::core {
namespace {

std::string folded(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, 64))
    if (c != '-' && c != '_' && c != '.')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

// Optimal string alignment: row i of the table needs only the two rows above it.
size_t edit_distance(std::string_view left, std::string_view right) {
  const std::string a = folded(left), b = folded(right);
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

namespace {

// "integer" means "int", "sigma" means "sigma_min": a word that is the start of the other is a near match.
size_t nearness(std::string_view word, const std::string& candidate) {
  const size_t d = edit_distance(word, candidate);
  const bool begins = word.size() >= 3 && candidate.size() >= 3 &&
                      (candidate.starts_with(word) || word.starts_with(candidate));
  return begins ? std::min<size_t>(d, 1) : d;
}

}  // namespace

std::string suggest(std::string_view word, const std::vector<std::string>& candidates) {
  size_t best = std::max<size_t>(1, std::min<size_t>(word.size(), 64) / 3) + 1;
  size_t letters = best;  // breaks ties: the distance by letters
  std::string found;
  for (const auto& candidate : candidates) {
    const size_t d = nearness(word, candidate), other = edit_distance(word, candidate);
    // If the words share no letter, the distance is their length.
    if (d >= std::max<size_t>(1, word.size())) continue;
    if (d < best || (d == best && !found.empty() && other < letters))
      best = d, letters = other, found = candidate;
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string found = suggest(word, candidates);
  return found.empty() ? "" : ", did you mean '" + found + "'?";
}

std::string did_you_mean_or_list(std::string_view word, const std::vector<std::string>& candidates,
                                 std::string_view what) {
  std::string out = did_you_mean(word, candidates);
  if (!out.empty()) return out;
  out = "; " + std::string(what);
  for (size_t i = 0; i < candidates.size(); ++i) out += (i ? ", " : ": ") + candidates[i];
  return out;
}

}  // namespace kinora::core
