// The clips that select and dedup jobs left out, with why.
#include "plugins/jobs/report/left_out.hpp"

#include "core/base/expression.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/data/webp.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostOfRule = 8, kMostRules = 40;

// The key must be a plain file name, so that it cannot lead out of the folder.
bool is_file_name(const std::string& key) { return !key.empty() && key.find('/') == std::string::npos; }

// A still picture from the clip's preview; null: there is none.
json small_picture(Pictures& pictures, const JobRecord& curate, const std::string& key) {
  const auto preview = preview_of(curate, key);
  const auto shape = preview ? webp_preview(*preview) : std::nullopt;
  if (!shape) return nullptr;
  json out = pictures.media.webp(shape->still);
  if (!out.contains("uri")) return nullptr;
  out.update({{"width", shape->width}, {"height", shape->height}});
  return out;
}

// The number that the condition compares; null: it has none, or compares several.
json value_of(const JobRecord& curate, const std::string& key, const std::string& rule) {
  const auto bounds = bounds_of_where(rule);
  if (bounds.size() != 1 || !is_file_name(key)) return nullptr;
  const auto text = read_file(curate.folder / "data" / (key + ".json"));
  const json facts = text ? parse_facts(*text) : json();
  const json* fact = facts.is_object() ? find_fact(facts, bounds[0].column) : nullptr;
  return fact && fact->is_number() ? *fact : json();
}

}  // namespace

std::optional<std::string> preview_of(const JobRecord& curate, const std::string& key) {
  constexpr uint64_t kLargest = 1 << 20;
  return is_file_name(key) ? read_file(curate.folder / "data" / (key + ".preview.webp"), kLargest)
                           : std::nullopt;
}

LeftOut left_out_by(const RunRecord& run) {
  LeftOut out;
  std::map<std::string, EditHistory> edits;  // by curate job
  for (const auto* job : run.of_kind("curate"))
    if (auto read = catching([&] { return read_edits(job->folder / kEditsFile, kept_in(job->folder)); }))
      edits.emplace(job->name, *std::move(read));
  for (const auto& job : run.jobs) {
    const std::string curated = text_at(job.summary, "curated");
    if ((job.kind != "select" && job.kind != "dedup") || curated.empty()) continue;
    const auto of_people = edits.find(curated);
    const auto take = [&](const json& line, const std::string&, const std::string& key,
                          const std::string& end) {
      const bool is_accepted = !flag_in(line, "final") && of_people != edits.end() &&
                               of_people->second.now(key).keep.value_or(false);
      if (end != "filtered" || is_accepted || !out.keys[curated].insert(key).second) return;
      out.of_jobs[job.name].push_back(
          {key, text_at(line, "rule"), text_at(line, "of"), number_at(line, "score")});
    };
    // A file that cannot be read to its end says what it says until there.
    (void)catching([&] { each_decision(job.folder / kDecisionsFile, take); });
  }
  return out;
}

json left_out_data(Pictures& pictures, const JobRecord& curate, const std::vector<LeftOutClip>& clips) {
  std::map<std::string, std::vector<const LeftOutClip*>> rules;
  for (const auto& clip : clips) rules[clip.rule].push_back(&clip);
  json out = json::array();
  for (const auto& [rule, of_rule] : rules) {
    if (out.size() == kMostRules) break;
    json list = json::array();
    for (const LeftOutClip* clip : of_rule) {
      if (list.size() == kMostOfRule) break;
      json one{{"key", clip->key}, {"of", clip->of}, {"picture", small_picture(pictures, curate, clip->key)}};
      one["score"] = clip->score ? json(*clip->score) : value_of(curate, clip->key, rule);
      if (!clip->of.empty()) one["picture_of"] = small_picture(pictures, curate, clip->of);
      list.push_back(std::move(one));
    }
    out.push_back({{"rule", rule}, {"more", of_rule.size() - list.size()}, {"list", std::move(list)}});
  }
  return out;
}

}  // namespace kinora::core::report
