// kind = "curate": films in, clips out. kind = "shard": clips in, shards out. Both run stages on an engine.
#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

struct CurateOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  static void describe(Describe<CurateOptions>& d) {
    d.name("curate").help("Runs stages over films; what leaves the last stage is kept as files");
    d.option("memory", &CurateOptions::memory)
        .bytes()
        .at_least(1 << 20)
        .help("bound on the samples between stages");
    d.option("threads", &CurateOptions::threads).range(0, 4096).help("worker threads; 0: one a core");
  }
};

struct ShardOptions {
  std::string out;
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  static void describe(Describe<ShardOptions>& d) {
    d.name("shard").help("Packs the clips of a curate job into WebDataset shards");
    d.option("out", &ShardOptions::out).help("URI of a folder that gets a copy of the shards, as s3://bucket/shards");
    d.option("memory", &ShardOptions::memory)
        .bytes()
        .at_least(1 << 20)
        .help("bound on the samples between stages");
    d.option("threads", &ShardOptions::threads).range(0, 4096).help("worker threads; 0: one a core");
  }
};

void run_curate(JobContext&);
void run_shard(JobContext&);
void check_curate(JobCheck&);
void check_shard(JobCheck&);

}  // namespace kinora::core
