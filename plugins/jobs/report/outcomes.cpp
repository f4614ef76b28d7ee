#include <algorithm>
#include <numeric>
#include <set>

#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

// The page must open for a run of a million clips, so its lists have limits; "more" counts what is left out.
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

// paths: those of namesakes, which the table shows.
json input_row(const SourceVideo& video, const std::map<std::string, std::string>& paths) {
  json out = ending_of(video.item);
  const auto path = paths.find(video.item.url);
  out["key"] = video.item.key;
  out["path"] = path == paths.end() ? "" : path->second;
  out["is_cut"] = video.item.consumed;
  out["is_damaged"] = !video.item.damaged.empty();
  out["seconds"] = video.fps > 0 ? json(video.seconds(video.frames)) : json();
  out["shots"] = video.shots.size();
  out["clips"] = video.clips.size();
  for (const char* end : kEnds) out[end] = video.clips_that(end);
  return out;
}

struct Rule {
  std::string stage;
  std::vector<std::pair<double, std::string>> scores;       // scores and their keys
  std::vector<std::pair<std::string, std::string>> copies;  // keys, and those of what they are copies of
  std::set<json> bounds;
  int64_t count = 0;
};

template <class F>
void for_each_item(const Curation& curation, F&& f) {
  for (const auto& video : curation.videos) {
    if (!video.item.end.empty()) f(video.item);
    for (const auto& clip : video.clips) f(clip);
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
    if (!item.of.empty())
      rule.copies.emplace_back(item.key, item.of);
    else if (item.score)
      rule.scores.emplace_back(*item.score, item.key);
  });
  json out = json::array();
  for (auto& [name, rule] : rules) {
    std::sort(rule.scores.begin(), rule.scores.end());
    json lowest = json::array();
    for (size_t i = 0; i < std::min(rule.scores.size(), kMostScores); ++i)
      lowest.push_back({{"key", rule.scores[i].second}, {"score", rule.scores[i].first}});
    json copies = json::array();
    for (size_t i = 0; i < std::min(rule.copies.size(), kMostScores); ++i)
      copies.push_back({{"key", rule.copies[i].first}, {"of", rule.copies[i].second}});
    out.push_back({{"rule", name},
                   {"copies", std::move(copies)},
                   {"more_copies", rule.copies.size() - std::min(rule.copies.size(), kMostScores)},
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
  for (const auto& video : curation.videos) {
    add(found_inputs, video.item);
    for (const auto& clip : video.clips) add(found_clips, clip);
  }
  const auto paths = paths_of_namesakes(curation);
  for (const bool failed : {true, false})  // those that failed come first
    for (const auto& video : curation.videos)
      if ((video.item.end == "failed") == failed && inputs.size() < kMostRows)
        inputs.push_back(input_row(video, paths));
  // "said" is what summary.json counts and "found" what items.jsonl lists: the page shows both where they differ.
  return {{"all", count_at(job.summary, "inputs")},
          {"damaged", count_at(job.summary, "damaged")},
          {"without_result", object_at(job.summary, "without_result")},  // inputs by stage
          {"is_whole", curation.found && curation.broken == 0},  // every line of items.jsonl could be read
          {"said", {{"inputs", counts_at(job.summary)}, {"clips", counts_at(clips)}}},
          {"found", {{"inputs", std::move(found_inputs)}, {"clips", std::move(found_clips)}}},
          {"inputs", {{"more", curation.videos.size() - inputs.size()}, {"list", std::move(inputs)}}},
          {"rules", rules_of(curation)},
          {"failures", failures_of(curation)}};
}

namespace {

// The bounds that used each score: those of the job's stages, and of the select jobs that chose among its clips.
std::map<std::string, std::vector<UsedBound>> used_bounds(const RunRecord& run, const JobRecord& job,
                                                          const Scores& scores) {
  std::map<std::string, std::vector<UsedBound>> out;
  const auto add = [&](FactBound bound, const std::string& select, int64_t removed) {
    if (const std::string name = scores.score_named(bound.column); !name.empty())
      out[name].push_back({std::move(bound), select, removed});
  };
  for (const auto& stage : job.components)
    if (stage.slot == "stages" && stage.id.starts_with("stage/"))
      for (auto& bound : bounds_of_stage(stage.id.substr(stage.id.find('/') + 1), stage.options))
        add(std::move(bound), "", 0);
  for (const auto* select : run.of_kind("select")) {
    if (text_at(select->summary, "curated") != job.name) continue;
    std::map<std::string, int64_t> removed;
    for (const auto& [rule, count] : object_at(select->summary, "rules").items())
      if (count.is_number()) removed[rule] = count_at(object_at(select->summary, "rules"), rule.c_str());
    for (auto& bound : bounds_of_where(text_at(select->options, "where"))) {
      const int64_t count = removed[bound.rule];
      add(std::move(bound), select->name, count);
    }
  }
  return out;
}

// Whether all items with the score are those that its rule filtered, at one value: a rule that measures nothing.
bool says_nothing(const Score& score) {
  return score.filtered.size() == score.values.size() && score.bounds.empty() &&
         std::ranges::count(score.values, score.values.front()) == std::ssize(score.values);
}

}  // namespace

json scores_of(const RunRecord& run, const JobRecord& job, const Curation& curation) {
  auto bounds = used_bounds(run, job, curation.scores);
  json list = json::array(), others = json::array();
  for (const auto& [name, score] : curation.scores.all()) {
    if (score.values.empty() || says_nothing(score)) continue;
    json one = distribution_of(name, score, std::move(bounds[name]));
    one["name"] = name;
    for (const char* key : {"title", "unit"}) one[key] = text_at(object_at(job.scores, name.c_str()), key);
    (one["bounds"].empty() ? others : list).push_back(std::move(one));
  }
  list.insert(list.end(), others.begin(), others.end());
  return list;
}

namespace {

// {"name", "clips"} of each member of a summary's object of counts, the first ones.
json counts_in(const json& summary, const char* key) {
  json out = json::array();
  const json& all = object_at(summary, key);
  for (const auto& [name, clips] : all.items())
    if (out.size() < kMostRows) out.push_back({{"name", name}, {"clips", count_at(all, name.c_str())}});
  return out;
}

// The clips of each set, with the share that they are and the one that the options ask for.
json sets_of(const JobRecord& job) {
  json out = counts_in(job.summary, "sets");
  double clips = 0;
  for (const auto& set : out) clips += set["clips"].get<double>();
  const std::vector<double> shares = numbers_at(job.options, "shares");
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto names = job.options.find("sets");
  for (auto& set : out) {
    set["share"] = clips > 0 ? set["clips"].get<double>() / clips : 0;
    set["asked"] = 1.0 / static_cast<double>(out.size());
    for (size_t i = 0;
         names != job.options.end() && names->is_array() && i < std::min(names->size(), shares.size()); ++i)
      if ((*names)[i] == set["name"] && sum > 0) set["asked"] = shares[i] / sum;
  }
  return out;
}

}  // namespace

json selection_of(const JobRecord& job) {
  json steps = json::array(), tables = json::array(), bins = counts_in(job.summary, "bins");
  const auto all = job.summary.find("steps");
  if (all != job.summary.end() && all->is_array())
    for (const auto& step : *all)
      if (steps.size() < kMostRows)
        steps.push_back({{"rule", text_at(step, "rule")},
                         {"in", count_at(step, "in")},
                         {"removed", count_at(step, "removed")}});
  for (const auto& [path, joined] : object_at(job.summary, "joined").items())
    if (tables.size() < kMostRows)
      tables.push_back({{"name", path.substr(path.rfind('/') + 1)},
                        {"rows", count_at(joined, "rows")},
                        {"rows_of_clips", count_at(joined, "rows_of_clips")},
                        {"clips", count_at(joined, "clips")}});
  return {{"steps", std::move(steps)},
          {"tables", std::move(tables)},
          {"more_bins", object_at(job.summary, "bins").size() - bins.size()},
          {"bins", std::move(bins)},
          {"sets", sets_of(job)}};
}

}  // namespace kinora::core::report
