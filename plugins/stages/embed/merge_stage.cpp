#include "merge_stage.hpp"

#include <cmath>

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::embed {
namespace {

using nlohmann::json;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Normalises to norm 1; zeros stay zeros.
std::vector<double> unit(std::span<const float> row) {
  std::vector<double> out(row.begin(), row.end());
  const double length = std::sqrt(dot(out, out));
  if (length > 0)
    for (double& v : out) v /= length;
  return out;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  const double lengths = std::sqrt(dot(a, a) * dot(b, b));
  return lengths > 0 ? dot(a, b) / lengths : 0;
}

}  // namespace

Merged merge(const FloatArray& rows, MergeRule rule, double threshold) {
  Merged out;
  std::vector<double> before = unit(rows.row(0));  // sum over the run, whose direction is that of the mean
  for (int64_t i = 1; i < rows.rows(); ++i) {
    auto now = unit(rows.row(i));
    const double similarity = cosine(before, now);
    const bool seen = dot(before, before) > 0 && dot(now, now) > 0;
    out.similarity.push_back(similarity);
    out.joined.push_back(seen && similarity >= threshold);
    if (rule == MergeRule::running && out.joined.back())
      for (size_t d = 0; d < now.size(); ++d) now[d] += before[d];
    before = std::move(now);
  }
  return out;
}

FloatArray joined_rows(const FloatArray& rows, const std::vector<bool>& joined) {
  FloatArray out;
  const auto width = static_cast<size_t>(rows.columns());
  std::vector<double> sum(width);
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const auto now = unit(rows.row(i));
    for (size_t d = 0; d < width; ++d) sum[d] += now[d];
    if (i + 1 < rows.rows() && joined[static_cast<size_t>(i)]) continue;
    const double length = std::sqrt(dot(sum, sum));
    for (const double v : sum) out.values.push_back(static_cast<float>(length > 0 ? v / length : 0));
    sum.assign(width, 0);
  }
  out.shape = {static_cast<int64_t>(width ? out.values.size() / width : 0), static_cast<int64_t>(width)};
  return out;
}

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
          "counterpart of a shot in the comparison: the previous shot, or the mean of the shots already "
          "joined before it");
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
  if (is_picture(in)) return emit(std::move(in));
  const std::string key(in.key()), field = "shots." + options_.name + ".npy";
  const auto fail = [&](const std::string& what) {
    return Error(KINORA_ERROR_DATA, "sample '" + key + "': " + what);
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
