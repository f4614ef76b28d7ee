#include "plugins/jobs/funnel/funnel.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/base/regular_file.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

int64_t count_in(const json& object, const char* key) {
  const double value = number_in(object, key);
  return value > 0 && value < 9e15 ? static_cast<int64_t>(value) : 0;
}

struct Ends {
  int64_t kept = 0, filtered = 0, failed = 0;
  void add(const json& counts) {
    kept += count_in(counts, "kept");
    filtered += count_in(counts, "filtered");
    failed += count_in(counts, "failed");
  }
  int64_t sum() const { return kept + filtered + failed; }
  std::vector<FunnelLoss> lost() const {
    std::vector<FunnelLoss> out;
    if (filtered > 0) out.push_back({"filtered", filtered});
    if (failed > 0) out.push_back({"failed", failed});
    return out;
  }
};

// The good clips of one curate job, and those that the jobs that choose among them have left.
struct Curated {
  int64_t good = 0, chosen = 0;
};

// The steps of the curate jobs.
std::vector<FunnelStep> curated_steps(const std::vector<json>& summaries,
                                      std::map<std::string, Curated>& of) {
  Ends inputs, clips;
  for (const json& summary : summaries) {
    if (text_in(summary, "kind") != "curate") continue;
    Ends own;
    own.add(object_in(summary, "clips"));
    inputs.add(summary);
    clips.add(object_in(summary, "clips"));
    // Inputs that no stage has cut are what is chosen from.
    const int64_t good = own.sum() > 0 ? own.kept : count_in(summary, "kept");
    of[text_in(summary, "job")] = {good, good};
  }
  if (of.empty()) return {};
  if (clips.sum() == 0) return {{"inputs", inputs.sum(), {}}, {"good", inputs.kept, inputs.lost()}};
  int64_t good = 0;
  for (const auto& [job, curated] : of) good += curated.good;
  return {{"videos", inputs.sum(), {}}, {"clips", clips.sum(), inputs.lost()}, {"good", good, clips.lost()}};
}

}  // namespace

std::vector<FunnelStep> funnel_of(const std::vector<json>& summaries) {
  std::map<std::string, Curated> curated;
  std::vector<FunnelStep> out = curated_steps(summaries, curated);
  if (out.empty()) return out;
  FunnelStep chosen{"chosen", 0, {}}, shards{"in shards", 0, {}};
  bool is_chosen = false, is_packed = false;
  for (const json& summary : summaries) {
    const std::string kind = text_in(summary, "kind");
    if (const auto of = curated.find(text_in(summary, "curated"));
        of != curated.end() && (kind == "select" || kind == "dedup")) {
      Ends ends;
      ends.add(object_in(summary, "clips"));
      of->second.chosen = std::min(of->second.chosen, ends.kept);
      if (ends.sum() > ends.kept) chosen.lost.push_back({text_in(summary, "job"), ends.sum() - ends.kept});
      is_chosen = true;
    }
    if (kind == "shard") shards.count += count_in(summary, "samples"), is_packed = true;
  }
  for (const auto& [job, one] : curated) chosen.count += one.chosen;
  if (is_chosen) out.push_back(std::move(chosen));
  const int64_t left = out.back().count - shards.count;
  if (left > 0) shards.lost.push_back({"", left});
  if (is_packed) out.push_back(std::move(shards));
  return out;
}

std::vector<FunnelStep> funnel_in(const std::vector<std::filesystem::path>& folders) {
  std::vector<json> summaries;
  for (const auto& folder : folders) {
    const auto text = read_regular_file(folder / "summary.json");
    if (json summary = text ? parse_facts(*text) : json(); summary.is_object())
      summaries.push_back(std::move(summary));
  }
  return funnel_of(summaries);
}

std::string funnel_line(const std::vector<FunnelStep>& steps) {
  std::string out;
  for (const auto& [name, count, lost] : steps) {
    const bool is_one = count == 1 && name.back() == 's' && name != "in shards";
    out += fmt::format("{}{} {}", out.empty() ? "" : " → ", count,
                       std::string_view(name).substr(0, name.size() - (is_one ? 1 : 0)));
  }
  return out;
}

json funnel_json(const std::vector<FunnelStep>& steps) {
  json out = json::array();
  for (const auto& [name, count, lost] : steps) {
    json fell = json::array();
    for (const auto& loss : lost) fell.push_back({{"by", loss.by}, {"count", loss.count}});
    out.push_back({{"name", name}, {"count", count}, {"lost", std::move(fell)}});
  }
  return out;
}

}  // namespace kinora::core
