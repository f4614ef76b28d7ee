#include "plugins/jobs/report/scores.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/expression.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/curation/log_scale.hpp"

namespace kinora::core::report {
namespace {

using nlohmann::json;

// More names than these are a mistake; charts of so many scores, and bounds of one, are still readable.
constexpr size_t kMostNames = 120, kMostBounds = 8, kBars = 32;
constexpr const char* kScoresPrefix = "scores.";

// Ranges from low to high, of equal width if they have no edges. Halves, since the difference of two numbers may be
// infinite.
struct Bars {
  double low, high;
  std::vector<int64_t> counts;
  std::vector<double> edges;  // where the bars of a logarithmic scale begin, and where the last ends

  void add(double value) {
    if (!edges.empty()) {
      ++counts[static_cast<size_t>(std::upper_bound(edges.begin() + 1, edges.end() - 1, value) -
                                   edges.begin() - 1)];
      return;
    }
    const auto n = static_cast<double>(counts.size());
    const double share = high / 2 > low / 2 ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0;
    ++counts[static_cast<size_t>(std::clamp(std::floor(share * n), 0.0, n - 1))];
  }
};

bool is_whole(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double v) { return v == std::floor(v); });
}

// One value has one bar; few whole numbers have a bar each, from half a step below to half a step above.
Bars bars_for(const std::vector<double>& sorted) {
  const double low = sorted.front(), high = sorted.back();
  if (!(high / 2 > low / 2)) return {low, high, {0}, {}};
  if (high / 2 - low / 2 < kBars / 2.0 && is_whole(sorted))
    return {low - 0.5, high + 0.5, std::vector<int64_t>(static_cast<size_t>(high - low) + 1), {}};
  Bars out{low, high, std::vector<int64_t>(kBars), {}};
  if (const double least = least_of_skewed(sorted, low, high); least > 0)
    out.edges = log_edges(low, least, high, kBars);
  return out;
}

bool has_side(const std::vector<UsedBound>& bounds, bool is_most) {
  return std::ranges::any_of(
      bounds, [&](const UsedBound& one) { return one.select.empty() && one.bound.is_most == is_most; });
}

void add_noted(const std::string& name, const Score& score, std::vector<UsedBound>& bounds) {
  const bool has[] = {has_side(bounds, false), has_side(bounds, true)};
  for (const auto& [is_most, value] : score.bounds)
    if (!has[is_most]) bounds.push_back({{.rule = name, .is_most = is_most, .value = value}, "", 0});
}

// Each item that the rule filtered is counted at the first bound that it breaks.
void count_filtered(const Score& score, std::vector<UsedBound>& bounds) {
  for (const double value : score.filtered)
    for (auto& one : bounds)
      if (one.select.empty() && !one.bound.keeps(value)) {
        ++one.removed;
        break;
      }
}

}  // namespace

Score* Scores::score(const std::string& name) {
  const auto at = scores_.find(name);
  if (at != scores_.end()) return &at->second;
  return scores_.size() < kMostNames ? &scores_[name] : nullptr;
}

void Scores::add(const json& facts, const std::string& reason, double score) {
  const json& measured = object_in(facts, "scores");
  for (const auto& [name, value] : measured.items()) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) continue;
    if (Score* to = this->score(name)) to->values.push_back(value.get<double>());
    if (name == reason) score = value.get<double>();
  }
  for (const auto& [name, value] : facts.items())
    if (others_.size() < 10 * kMostNames && name != "scores") others_.insert(name);
  if (reason.empty() || !std::isfinite(score)) return;
  Score* to = this->score(reason);
  if (!to) return;
  if (!measured.contains(reason)) to->values.push_back(score);
  to->filtered.push_back(score);
  const json& bound = object_in(object_in(facts, "bounds"), reason.c_str());
  for (const auto& [key, is_most] : {std::pair{"at_least", false}, {"at_most", true}})
    if (bound.contains(key) && bound[key].is_number() && to->bounds.size() < kMostBounds)
      to->bounds.emplace(is_most, bound[key].get<double>());
}

std::string Scores::score_named(const std::string& fact) const {
  if (others_.contains(fact)) return "";
  for (const std::string place : {"", kFactPlaces[0], kFactPlaces[1]}) {
    const std::string name = place + fact;
    if (name.starts_with(kScoresPrefix))
      if (const std::string score = name.substr(std::string_view(kScoresPrefix).size());
          scores_.contains(score))
        return score;
  }
  return "";
}

json distribution_of(const std::string& name, const Score& score, std::vector<UsedBound> bounds) {
  std::vector<double> sorted = score.values;
  std::sort(sorted.begin(), sorted.end());
  Bars all = bars_for(sorted), out = all;
  for (const double value : sorted) all.add(value);
  for (const double value : score.filtered) out.add(value);
  add_noted(name, score, bounds);
  count_filtered(score, bounds);
  json used = json::array();
  for (const auto& [bound, select, removed] : bounds)
    if (used.size() < kMostBounds)
      used.push_back({{"is_most", bound.is_most},
                      {"is_strict", bound.is_strict},
                      {"value", bound.value},
                      {"by", select.empty() ? bound.rule : select},
                      {"is_select", !select.empty()},
                      {"removed", removed}});
  return {{"values", sorted.size()},
          {"low", sorted.front()},
          {"high", sorted.back()},
          {"median", sorted[(sorted.size() - 1) / 2] / 2 + sorted[sorted.size() / 2] / 2},
          {"from", all.low},
          {"to", all.high},
          {"bars", all.counts},
          {"edges", all.edges},
          {"out", out.counts},
          {"bounds", std::move(used)}};
}

}  // namespace kinora::core::report
