// kind = "dedup": finds clips of a curate job that are copies of others. Writes decisions.jsonl; moves and removes nothing.
// Each decision identifies its footage ("clip", as in subject_of), so that it is not applied to other footage that has the key
// later. Clips that people rejected in the studio are removed first, by rule studio.reject: they are compared with nothing, so
// a copy of one may be kept. Such a copy's decision has "instead_of", and shard jobs report it.
#pragma once

#include "core/run/job_plugin.hpp"

namespace kinora::core {

struct DedupOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  static void describe(Describe<DedupOptions>& d) {
    d.name("dedup").help(
        "Finds clips of a curate job that are copies of other clips; a shard job that reads this job leaves them out");
    d.option("memory", &DedupOptions::memory).how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory for the data of the clips, which are all compared at once");
    d.option("threads", &DedupOptions::threads).how_only().range(0, 4096).help("number of worker threads; 0: one per core");
  }
};

class Dedup final : public JobType {
 public:
  using Options = DedupOptions;
  static JobParts parts();
  void run(JobContext&) const override;
  void check(JobCheck&) const override;
  std::string edits_identity(const RunFile&, const JobSpec&) const override;
};

}  // namespace kinora::core
