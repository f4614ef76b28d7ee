#include "merge_stage.hpp"

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::embed {

using nlohmann::json;

void ShotsMerge::describe(Describe<Options>& d) {
  d.name("shots.merge")
      .help(
          "Joins neighbouring shots whose embeddings are alike; shots.json records which cuts were "
          "removed, and why");
  d.option("name", &Options::name)
      .help(
          "name of the embedding: field shots.NAME.npy, which embed.classic and embed.model write for "
          "whole videos");
  d.option("rule", &Options::rule)
      .choices({"consecutive", "running"})
      .help(
          "what a shot is compared with: the previous shot, or the mean of the shots already joined before "
          "it");
  d.option("threshold", &Options::threshold).range(-1, 1).help("smallest cosine at which shots are joined");
  d.option("mode", &Options::mode)
      .choices({"on", "score"})
      .help(
          "score: shots.json records how alike the shots are and which would be joined, and keeps its cuts");
}

ShotsMerge::ShotsMerge(const Options& o) : options_(o) {}

json without_joined(json shots, const Merged& merged) {
  json cuts = json::array(), times = json::array(), similarities = json::array();
  json& gone = shots["merged"];
  if (!gone.is_array()) gone = json::array();
  const json before = shots.at("cuts");
  for (size_t i = 0; i < before.size(); ++i) {
    if (merged.joined[i]) {
      gone.push_back({{"cut", before[i]}, {"similarity", merged.similarity[i]}});
      continue;
    }
    cuts.push_back(before[i]);
    similarities.push_back(merged.similarity[i]);
    if (shots.contains("times_us")) times.push_back(shots["times_us"].at(i));
  }
  shots["cuts"] = std::move(cuts);
  if (shots.contains("times_us")) shots["times_us"] = std::move(times);
  shots["similarities"] = std::move(similarities);
  return shots;
}

json with_similarities(json shots, const Merged& merged) {
  json joined = json::array();
  for (size_t i = 0; i < merged.joined.size(); ++i)
    if (merged.joined[i]) joined.push_back(shots.at("cuts").at(i));
  shots["similarities"] = merged.similarity;
  shots["merge"] = {{"would_join", std::move(joined)}};
  return shots;
}

void ShotsMerge::process(Sample in, const Emit& emit, const Run&) {
  const std::string key(in.key()), field = "shots." + options_.name + ".npy";
  const auto fail = [&](const std::string& what) {
    return Error(KINORA_DATA, "sample '" + key + "': " + what);
  };
  json shots = json_field(in, "shots.json", json());
  if (!shots.is_object() || !shots.contains("cuts") || !shots["cuts"].is_array())
    throw fail("it has no shots; put a stage shots.* before shots.merge");
  const auto bytes = in.text(field.c_str());
  if (!bytes)
    throw fail("it has no field " + field + "; put embed.classic, with this name, before shots.merge");
  const FloatArray rows = read_npy(*bytes, key + "." + field);
  const size_t cuts = shots["cuts"].size();
  if (rows.shape.size() != 2 || static_cast<size_t>(rows.rows()) != cuts + 1)
    throw fail(field + " has " + std::to_string(rows.rows()) + " rows for " + std::to_string(cuts + 1) +
               " shots; embed after the last stage that changes shots.json");
  if (shots.contains("times_us") && (!shots["times_us"].is_array() || shots["times_us"].size() != cuts))
    throw fail("shots.json must have one entry of times_us per cut; detect the shots again");
  const auto rule = options_.rule == "running" ? MergeRule::running : MergeRule::consecutive;
  const Merged merged = merge(rows, rule, options_.threshold);
  const bool joins = options_.mode == "on";
  shots = joins ? without_joined(std::move(shots), merged) : with_similarities(std::move(shots), merged);
  if (joins) shots["merge"] = json::object();
  shots["merge"].update(
      {{"name", options_.name}, {"rule", options_.rule}, {"threshold", options_.threshold}});
  in.set("shots.json", json_text(shots));
  const FloatArray left = joined_rows(rows, merged.joined);
  if (joins) in.set(field.c_str(), to_npy(left.values, left.shape));
  emit(std::move(in));
}

}  // namespace kinora::embed

using kinora::embed::ShotsMerge;
KINORA_COMPONENT(ShotsMerge)
