// kind = "dedup": which clips of a curate job are copies of another. Writes decisions.jsonl; moves and
// removes nothing. Each decision says which footage it is about ("clip", as subject_of has it), so that nobody takes it for one
// about what has the key later. What people rejected in the studio goes first, by rule studio.reject: it is compared with
// nothing, so a copy of it may stay; such a copy's decision says "instead_of", and shard jobs say it again.
#pragma once

#include "core/run/job_plugin.hpp"

namespace kinora::core {

struct DedupOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  static void describe(Describe<DedupOptions>& d) {
    d.name("dedup").help(
        "Finds clips of a curate job that are copies of another; a shard job that reads this leaves them "
        "out");
    d.option("memory", &DedupOptions::memory).how_only()
        .bytes()
        .at_least(1 << 20)
        .help("bound on what is kept of the clips, all of which are compared at once");
    d.option("threads", &DedupOptions::threads).how_only().range(0, 4096).help("worker threads; 0: one a core");
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
