#include <algorithm>
#include <set>

#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

// Of lists on the page, which must open for a run of a million clips; "more" counts what is left out.
constexpr size_t kMostRows = 200, kMostScores = 6;
constexpr const char* kEnds[] = {"kept", "filtered", "failed"};

json counts_at(const json& counts) {
  json out;
  for (const char* end : kEnds) out[end] = count_at(counts, end);
  return out;
}

void add(json& counts, const Item& item) {
  if (const auto at = counts.find(item.end); at != counts.end()) *at = at->get<int64_t>() + 1;
}

json input_row(const Film& film) {
  json out = ending_of(film.item);
  out["key"] = film.item.key;
  out["is_cut"] = film.item.consumed;
  out["is_damaged"] = !film.item.damaged.empty();
  out["seconds"] = film.fps > 0 ? json(film.seconds(film.frames)) : json();
  out["shots"] = film.shots.size();
  out["clips"] = film.clips.size();
  for (const char* end : kEnds) out[end] = film.clips_that(end);
  return out;
}

struct Rule {
  std::string stage;
  std::vector<std::pair<double, std::string>> scores;  // scores and their keys
  std::set<json> bounds;
  int64_t count = 0;
};

template <class F>
void for_each_item(const Curation& curation, F&& f) {
  for (const auto& film : curation.films) {
    if (!film.item.end.empty()) f(film.item);
    for (const auto& clip : film.clips) f(clip);
  }
}

// A rule is a stage's reason. Only some samples have a score, so "count" and "scores" can differ.
json rules_of(const Curation& curation) {
  std::map<std::string, Rule> rules;
  for_each_item(curation, [&](const Item& item) {
    if (item.end != "filtered") return;
    Rule& rule = rules[item.reason];
    rule.stage = item.stage;
    ++rule.count;
    if (!item.bound.is_null()) rule.bounds.insert(item.bound);
    if (item.score) rule.scores.emplace_back(*item.score, item.key);
  });
  json out = json::array();
  for (auto& [name, rule] : rules) {
    std::sort(rule.scores.begin(), rule.scores.end());
    json lowest = json::array();
    for (size_t i = 0; i < std::min(rule.scores.size(), kMostScores); ++i)
      lowest.push_back({{"key", rule.scores[i].second}, {"score", rule.scores[i].first}});
    out.push_back({{"rule", name},
                   {"stage", rule.stage},
                   {"count", rule.count},
                   {"bounds", rule.bounds},
                   {"lowest", std::move(lowest)},
                   {"highest", rule.scores.empty() ? json() : json(rule.scores.back().first)},
                   {"scores", rule.scores.size()}});
  }
  return out;
}

json failures_of(const Curation& curation) {
  json list = json::array();
  size_t all = 0;
  for_each_item(curation, [&](const Item& item) {
    if (item.end == "failed" && ++all <= kMostRows)
      list.push_back({{"key", item.key}, {"stage", item.stage}, {"reason", item.reason}});
  });
  return {{"more", all - list.size()}, {"list", std::move(list)}};
}

}  // namespace

json outcomes_of(const JobRecord& job, const Curation& curation) {
  const json& clips = object_at(job.summary, "clips");
  json found_inputs = counts_at({}), found_clips = counts_at({}), inputs = json::array();
  for (const auto& film : curation.films) {
    add(found_inputs, film.item);
    for (const auto& clip : film.clips) add(found_clips, clip);
    if (inputs.size() < kMostRows) inputs.push_back(input_row(film));
  }
  // "said" is what summary.json counts and "found" what items.jsonl lists: the page shows both where they differ.
  return {{"all", count_at(job.summary, "inputs")},
          {"damaged", count_at(job.summary, "damaged")},
          {"is_whole", curation.found && curation.broken == 0},  // every line of items.jsonl could be read
          {"said", {{"inputs", counts_at(job.summary)}, {"clips", counts_at(clips)}}},
          {"found", {{"inputs", std::move(found_inputs)}, {"clips", std::move(found_clips)}}},
          {"inputs", {{"more", curation.films.size() - inputs.size()}, {"list", std::move(inputs)}}},
          {"rules", rules_of(curation)},
          {"failures", failures_of(curation)}};
}

json selection_of(const JobRecord& job) {
  json steps = json::array(), sets = json::array(), tables = json::array();
  const auto all = job.summary.find("steps");
  if (all != job.summary.end() && all->is_array())
    for (const auto& step : *all)
      if (steps.size() < kMostRows)
        steps.push_back({{"rule", text_at(step, "rule")},
                         {"in", count_at(step, "in")},
                         {"removed", count_at(step, "removed")}});
  for (const auto& [name, clips] : object_at(job.summary, "sets").items())
    if (sets.size() < kMostRows)
      sets.push_back({{"name", name}, {"clips", count_at(object_at(job.summary, "sets"), name.c_str())}});
  for (const auto& [path, joined] : object_at(job.summary, "joined").items())
    if (tables.size() < kMostRows)
      tables.push_back({{"name", path.substr(path.rfind('/') + 1)},
                        {"rows", count_at(joined, "rows")},
                        {"rows_of_clips", count_at(joined, "rows_of_clips")},
                        {"clips", count_at(joined, "clips")}});
  return {{"steps", std::move(steps)}, {"sets", std::move(sets)}, {"tables", std::move(tables)}};
}

}  // namespace kinora::core::report
