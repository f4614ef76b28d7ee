// The inputs, the rules that filtered, and the failures of a curate job, as tables.
#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostRows = 200;

std::string end_text(const Film& film) {
  const std::string more = film.item.damaged.empty() ? "" : ", damaged";
  if (film.item.end == "filtered") return "filtered by " + film.item.reason + more;
  if (film.item.end == "failed") return "failed" + more;
  if (film.item.end.empty()) return "no line in items.jsonl";
  return (film.item.consumed ? "kept: cut into clips" : film.item.end) + more;
}

void write_inputs(Html& out, const Curation& curation) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& film : curation.films) {
    if (rows.size() == kMostRows) break;
    rows.push_back({{film.item.key},
                    {end_text(film), film.item.end},
                    {film.fps > 0 ? timecode(film.seconds(film.frames)) : "–"},
                    {count(static_cast<int64_t>(film.shots.size()))},
                    {count(static_cast<int64_t>(film.clips.size()))},
                    {count(film.clips_that("kept"))},
                    {count(film.clips_that("filtered"))},
                    {count(film.clips_that("failed"))}});
  }
  table(out, "Every input, and the clips made of it",
        {{"Input"},
         {"End"},
         {"Length", true},
         {"Shots", true},
         {"Clips", true},
         {"Kept", true},
         {"Filtered", true},
         {"Failed", true}},
        rows);
  if (curation.films.size() > kMostRows)
    note(out,
         counted(static_cast<int64_t>(curation.films.size() - kMostRows), "more input") + " in items.jsonl.");
}

struct Rule {
  std::string stage;
  std::vector<std::pair<double, std::string>> scores;  // scores and their keys
  std::set<std::string> bounds;
  int64_t count = 0;
};

template <class F>
void for_each_item(const Curation& curation, F&& f) {
  for (const auto& film : curation.films) {
    if (!film.item.end.empty()) f(film.item);
    for (const auto& clip : film.clips) f(clip);
  }
}

void write_rules(Html& out, const Curation& curation) {
  std::map<std::string, Rule> rules;
  for_each_item(curation, [&](const Item& item) {
    if (item.end != "filtered") return;
    Rule& rule = rules[item.reason];
    rule.stage = item.stage;
    ++rule.count;
    if (!item.bound.empty()) rule.bounds.insert(item.bound);
    if (item.score) rule.scores.emplace_back(*item.score, item.key);
  });
  if (rules.empty()) return;
  std::vector<std::vector<Cell>> rows;
  for (auto& [name, rule] : rules) {
    std::sort(rule.scores.begin(), rule.scores.end());
    std::string scores, whose;
    if (!rule.scores.empty()) scores = number(rule.scores.front().first);
    if (rule.scores.size() > 1) scores += " to " + number(rule.scores.back().first);
    for (size_t i = 0; i < std::min<size_t>(rule.scores.size(), 6); ++i)
      whose += fmt::format("{}{} ({})", i ? ", " : "", rule.scores[i].second, number(rule.scores[i].first));
    if (rule.scores.size() > 6)
      whose += fmt::format(" and {} more", count(static_cast<int64_t>(rule.scores.size() - 6)));
    const std::string bounds = fmt::format("{}", fmt::join(rule.bounds, "; "));
    rows.push_back({{name, "filtered"}, {rule.stage}, {count(rule.count)}, {scores}, {bounds}, {whose, "wide"}});
  }
  table(out, "Filtered, by rule",
        {{"Rule"}, {"Stage"}, {"Items", true}, {"Scores", true}, {"Kept"}, {"Which, with their scores"}}, rows);
}

void write_failures(Html& out, const Curation& curation) {
  std::vector<std::vector<Cell>> rows;
  int64_t all = 0;
  for_each_item(curation, [&](const Item& item) {
    if (item.end == "failed" && ++all <= static_cast<int64_t>(kMostRows))
      rows.push_back({{item.key, "failed"}, {item.stage}, {item.reason, "wide"}});
  });
  if (!rows.empty()) table(out, "Failed, with the error", {{"Item"}, {"Stage"}, {"Error"}}, rows);
  if (all > static_cast<int64_t>(kMostRows))
    note(out, counted(all - static_cast<int64_t>(kMostRows), "more failure") + " in items.jsonl.");
}

}  // namespace

void write_outcome_tables(Html& out, const Curation& curation) {
  write_inputs(out, curation);
  write_rules(out, curation);
  write_failures(out, curation);
}

}  // namespace kinora::core::report
