#include "plugins/jobs/funnel/funnel.hpp"

#include <algorithm>
#include <map>
#include <set>

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

// The good clips of one curate job, those that the jobs that choose among them have left, and those that people have
// rejected.
struct Curated {
  int64_t good = 0, chosen = 0, rejected = 0;
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
    of[text_in(summary, "job")] = {good, good, 0};
  }
  if (of.empty()) return {};
  if (clips.sum() == 0) return {{"inputs", inputs.sum(), {}, {}}, {"good", inputs.kept, inputs.lost(), {}}};
  int64_t good = 0;
  for (const auto& [job, curated] : of) good += curated.good;
  return {{"videos", inputs.sum(), {}, {}},
          {"clips", clips.sum(), inputs.lost(), {}},
          {"good", good, clips.lost(), {}}};
}

// The clips in shards. Every shard job that reads the same clips is offered as many: what it has packed, and what its
// `where` has not asked for.
class Packed {
 public:
  void add(const json& summary) {
    const json& others = object_in(summary, "not_asked_for");
    std::string source = text_in(summary, "given_by");
    if (source.empty()) source = text_in(summary, "curated");
    if (source.empty()) source = "shard job " + text_in(summary, "job");
    const int64_t samples = count_in(summary, "samples");
    auto& [offered, by_where] = of_[source];
    offered = std::max(offered, samples + count_in(others, "clips"));
    const std::string where = text_in(others, "where");
    by_where[where] = std::max(by_where[where], samples);
    takes_all_ |= where.empty();
    if (wheres_.insert(where).second) where_ += (where_.empty() ? "(" : " or (") + where + ")";
  }
  bool empty() const { return of_.empty(); }
  // before: the clips of the step before.
  FunnelStep step(int64_t before) const {
    FunnelStep out{"in shards", 0, {}, takes_all_ ? "" : where_};
    int64_t others = 0;
    for (const auto& [source, clips] : of_) {
      int64_t sum = 0;
      for (const auto& [where, samples] : clips.by_where) sum += samples;
      const int64_t count = std::min(clips.offered, sum);  // two conditions may hold for one clip
      out.count += count;
      others += clips.offered - count;
    }
    if (const int64_t left = before - out.count - others; left > 0) out.lost.push_back({"", left});
    if (others > 0) out.lost.push_back({"where", others});
    return out;
  }

 private:
  struct Clips {
    int64_t offered = 0;
    std::map<std::string, int64_t> by_where;
  };
  std::map<std::string, Clips> of_;  // by the job that has chosen them
  std::set<std::string> wheres_;
  std::string where_;
  bool takes_all_ = false;
};

}  // namespace

std::vector<FunnelStep> funnel_of(const std::vector<json>& summaries) {
  std::map<std::string, Curated> curated;
  std::vector<FunnelStep> out = curated_steps(summaries, curated);
  if (out.empty()) return out;
  FunnelStep chosen{"chosen", 0, {}, {}};
  Packed packed;
  bool is_chosen = false;
  for (const json& summary : summaries) {
    const std::string kind = text_in(summary, "kind");
    if (const auto of = curated.find(text_in(summary, "curated"));
        of != curated.end() && (kind == "select" || kind == "dedup")) {
      Ends ends;
      ends.add(object_in(summary, "clips"));
      of->second.chosen = std::min(of->second.chosen, ends.kept);
      const int64_t lost = ends.sum() - ends.kept;
      const int64_t rejected = std::min(lost, count_in(object_in(summary, "rules"), "studio.reject"));
      of->second.rejected = std::max(of->second.rejected, rejected);
      if (lost > rejected) chosen.lost.push_back({text_in(summary, "job"), lost - rejected});
      is_chosen = true;
    }
    if (kind == "shard") packed.add(summary);
  }
  int64_t rejected = 0;
  for (const auto& [job, one] : curated) chosen.count += one.chosen, rejected += one.rejected;
  if (rejected > 0) chosen.lost.push_back({"", rejected});
  if (is_chosen) out.push_back(std::move(chosen));
  if (!packed.empty()) out.push_back(packed.step(out.back().count));
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
  for (const auto& [name, count, lost, where] : steps) {
    const bool is_one = count == 1 && name.back() == 's' && name != "in shards";
    out += fmt::format("{}{} {}", out.empty() ? "" : " → ", count,
                       std::string_view(name).substr(0, name.size() - (is_one ? 1 : 0)));
  }
  return out;
}

json funnel_json(const std::vector<FunnelStep>& steps) {
  json out = json::array();
  for (const auto& [name, count, lost, where] : steps) {
    json fell = json::array();
    for (const auto& loss : lost) fell.push_back({{"by", loss.by}, {"count", loss.count}});
    out.push_back({{"name", name}, {"count", count}, {"lost", std::move(fell)}});
    if (!where.empty()) out.back()["where"] = where;
  }
  return out;
}

}  // namespace kinora::core
