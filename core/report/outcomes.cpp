// Where every input and every clip ended, from items.jsonl, held against the counts of summary.json.
#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "core/report/sections.hpp"
#include "core/report/words.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostRows = 200;

struct Sums {
  int64_t kept = 0, filtered = 0, failed = 0;
  int64_t all() const { return kept + filtered + failed; }
  bool operator==(const Sums&) const = default;
  void add(const Item& item) {
    kept += item.end == "kept";
    filtered += item.end == "filtered";
    failed += item.end == "failed";
  }
};

Sums sums_at(const json& counts) { return {count_at(counts, "kept"), count_at(counts, "filtered"), count_at(counts, "failed")}; }

void write_bar(Html& out, const Sums& s) {
  out.in("div", {{"class", "share"}, {"aria-hidden", "true"}}, [&] {
    for (const auto& [end, n] : {std::pair{"kept", s.kept}, {"filtered", s.filtered}, {"failed", s.failed}})
      if (n > 0) out.leaf("i", {{"class", end}, {"style", "flex-grow:" + std::to_string(n)}});
  });
}

// "12 clips = 9 kept + 2 filtered + 1 failed", and whether it is so.
void write_equation(Html& out, std::string_view one, int64_t all, const Sums& said, const Sums& found, bool whole) {
  out.in("div", {{"class", "sum"}}, [&] {
    out.in("p", {{"class", "equation"}}, [&] {
      out.in("span", {}, [&] { out.leaf("b", {}, count(all)), out.text(all == 1 ? one : std::string(one) + "s"); });
      const char* sign = "=";
      for (const auto& [end, n] : {std::pair{"kept", said.kept}, {"filtered", said.filtered}, {"failed", said.failed}}) {
        out.in("span", {{"class", end}}, [&] { out.leaf("i", {}, sign), out.leaf("b", {}, count(n)), out.text(end); });
        sign = "+";
      }
    });
    write_bar(out, said);
    if (all != said.all()) {
      out.leaf("p", {{"class", "check failed"}}, fmt::format("✗ Does not add up: the ends sum to {}.", count(said.all())));
    } else if (!(said == found) || !whole) {
      out.leaf("p", {{"class", "check failed"}}, fmt::format("✗ items.jsonl has {} kept, {} filtered, {} failed{}.", count(found.kept), count(found.filtered),
                                                             count(found.failed), whole ? "" : ", and lines that cannot be read"));
    } else {
      out.leaf("p", {{"class", "check"}}, fmt::format("✓ Adds up, and items.jsonl has a line for each of the {}.", count(all)));
    }
  });
}

std::string end_text(const Film& film) {
  if (film.item.end == "filtered") return "filtered by " + film.item.reason;
  if (film.item.end == "failed") return "failed";
  if (film.item.end.empty()) return "no line in items.jsonl";
  return film.item.consumed ? "kept: cut into clips" : film.item.end;
}

void write_inputs(Html& out, const Curation& curation) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& film : curation.films) {
    if (rows.size() == kMostRows) break;
    rows.push_back({{film.item.key}, {end_text(film), film.item.end}, {film.fps > 0 ? timecode(film.seconds(film.frames)) : "–"}, {count(static_cast<int64_t>(film.shots.size()))},
                    {count(static_cast<int64_t>(film.clips.size()))}, {count(film.clips_that("kept"))}, {count(film.clips_that("filtered"))}, {count(film.clips_that("failed"))}});
  }
  table(out, "Every input, and the clips made of it",
        {{"Input"}, {"End"}, {"Length", true}, {"Shots", true}, {"Clips", true}, {"Kept", true}, {"Filtered", true}, {"Failed", true}}, rows);
  if (curation.films.size() > kMostRows) note(out, counted(static_cast<int64_t>(curation.films.size() - kMostRows), "more input") + " in items.jsonl.");
}

struct Rule {
  std::string stage;
  std::vector<std::pair<double, std::string>> scores;  // and whose
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
    if (item.score) rule.scores.emplace_back(*item.score, item.key);
  });
  if (rules.empty()) return;
  std::vector<std::vector<Cell>> rows;
  for (auto& [name, rule] : rules) {
    std::sort(rule.scores.begin(), rule.scores.end());
    std::string scores, whose;
    if (!rule.scores.empty()) scores = number(rule.scores.front().first);
    if (rule.scores.size() > 1) scores += " to " + number(rule.scores.back().first);
    for (size_t i = 0; i < std::min<size_t>(rule.scores.size(), 6); ++i) whose += fmt::format("{}{} ({})", i ? ", " : "", rule.scores[i].second, number(rule.scores[i].first));
    if (rule.scores.size() > 6) whose += fmt::format(" and {} more", count(static_cast<int64_t>(rule.scores.size() - 6)));
    rows.push_back({{name, "filtered"}, {rule.stage}, {count(rule.count)}, {scores}, {whose, "wide"}});
  }
  table(out, "Filtered, by rule", {{"Rule"}, {"Stage"}, {"Items", true}, {"Scores", true}, {"Which, with their scores"}}, rows);
}

void write_failures(Html& out, const Curation& curation) {
  std::vector<std::vector<Cell>> rows;
  int64_t all = 0;
  for_each_item(curation, [&](const Item& item) {
    if (item.end == "failed" && ++all <= static_cast<int64_t>(kMostRows)) rows.push_back({{item.key, "failed"}, {item.stage}, {item.reason, "wide"}});
  });
  if (!rows.empty()) table(out, "Failed, with the error", {{"Item"}, {"Stage"}, {"Error"}}, rows);
  if (all > static_cast<int64_t>(kMostRows)) note(out, counted(all - static_cast<int64_t>(kMostRows), "more failure") + " in items.jsonl.");
}

void write_job(Page& page, const JobRecord& job) {
  const Curation& curation = page.curations[&job];
  Sums inputs, clips;
  for (const auto& film : curation.films) {
    inputs.add(film.item);
    for (const auto& clip : film.clips) clips.add(clip);
  }
  const bool whole = curation.found && curation.broken == 0;
  const Sums clips_said = sums_at(object_at(job.summary, "clips"));
  page.out.in("div", {{"class", "sums"}}, [&] {
    write_equation(page.out, "input", count_at(job.summary, "inputs"), sums_at(job.summary), inputs, whole);
    write_equation(page.out, "clip", clips_said.all(), clips_said, clips, whole);
  });
  write_inputs(page.out, curation);
  write_rules(page.out, curation);
  write_failures(page.out, curation);
}

}  // namespace

void write_outcomes(Page& page) {
  const auto curations = page.run.of_kind("curate"), shards = page.run.of_kind("shard");
  if (curations.empty() && shards.empty()) return;
  section(page, "outcomes", "Where everything ended", [&] {
    for (const JobRecord* job : curations)
      if (job_heading(page, *job)) write_job(page, *job);
    if (!shards.empty()) page.out.leaf("h3", {}, "Shards");
    for (const JobRecord* job : shards)
      if (job_heading(page, *job)) fact_list(page.out, summary_facts(*job));
  });
}

}  // namespace kinora::core::report
