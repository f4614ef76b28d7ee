// kind = "shard": packs clips of a curate job into WebDataset shards, following people's decisions in the
// studio.
#pragma once
#include "core/run/job_plugin.hpp"

namespace kinora::core {

struct ShardOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  std::string layout = "flat", out;
  static void describe(Describe<ShardOptions>& d) {
    d.name("shard").help("Packs the clips of a curate job into WebDataset shards");
    d.option("memory", &ShardOptions::memory).how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory of the samples between stages");
    d.option("threads", &ShardOptions::threads).how_only().range(0, 4096).help("number of worker threads; 0: one per core");
    d.option("layout", &ShardOptions::layout)
        .choices({"flat", "cosmos"})
        .help("folder layout of the shards; cosmos: folders resolution_R/aspect_ratio_W_H/duration_D");
    d.option("out", &ShardOptions::out).help("URI of a folder that receives a copy of the shards, such as "
                                             "s3://bucket/shards");
  }
};

class Shard final : public JobType {
 public:
  using Options = ShardOptions;
  static JobParts parts();
  void run(JobContext&) const override;
  void check(JobCheck&) const override;
  std::string edits_identity(const RunFile&, const JobSpec&) const override;
  std::string result_line(const json& summary) const override;
};

}  // namespace kinora::core
