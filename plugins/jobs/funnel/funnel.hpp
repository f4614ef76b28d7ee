// The funnel of a curation: how many videos came in, how many clips they gave, and how many each further step kept,
// read from what the jobs say in summary.json.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// Clips that fell before a step. by: "filtered" or "failed" for the steps of curate jobs, the name of a select or
// dedup job, or "" for those that people rejected in the studio; for shard jobs "where" if their `where` has not asked
// for the clips, else "".
struct FunnelLoss {
  std::string by;
  int64_t count = 0;
};

// name: "videos" ("inputs" if nothing was cut into clips), "clips", "good", "chosen", "in shards". where: the condition
// of the clips in shards; empty: a shard job takes them all, or another step.
struct FunnelStep {
  std::string name;
  int64_t count = 0;
  std::vector<FunnelLoss> lost;
  std::string where;
};

// The funnel from the summaries of finished jobs, each with its "job" and "kind"; several curate jobs count by their
// sums. Steps without a job are left out; empty: there is no curate job. If several select and dedup jobs read one
// curate job, in a chain or next to each other, the one that keeps the fewest counts as the last. Several shard jobs
// that read one job count by their sum, up to all clips of that job.
std::vector<FunnelStep> funnel_of(const std::vector<nlohmann::json>& summaries);

// The funnel from jobs' folders. One without a summary that can be read counts as not finished.
std::vector<FunnelStep> funnel_in(const std::vector<std::filesystem::path>& folders);

// "23 videos → 65 clips → 62 good → 49 chosen → 44 in shards"; "" for an empty one.
std::string funnel_line(const std::vector<FunnelStep>&);

// [{"name", "count", "lost": [{"by", "count"}]}], and "where" if the step has one.
nlohmann::json funnel_json(const std::vector<FunnelStep>&);

}  // namespace kinora::core
