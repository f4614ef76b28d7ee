// The options that engines share.
#pragma once
#include "kinora/options.hpp"
#include "plugins/engines/common/runner.hpp"

namespace kinora::engines {

struct CommonOptions {
  int64_t queue = 64;
  int64_t retries = 2;
  double backoff = 0.2;
  double item_timeout = 300, item_limit = 43200;
  int64_t item_retries = 1;
  bool profile = false;

  // Without nodes.
  Settings settings() const {
    Settings out;
    out.queue = static_cast<uint64_t>(queue);
    out.retries = retries;
    out.backoff = backoff;
    out.death_retries = item_retries;
    out.profile = profile;
    return out;
  }
};

template <class Options>
void describe_common(Describe<Options>& d) {
  d.option("queue", &CommonOptions::queue)
      .range(1, 1 << 20)
      .help("samples that may wait for one stage, for each node");
  d.option("retries", &CommonOptions::retries)
      .range(0, 100)
      .help("further attempts when reading or writing failed");
  d.option("backoff", &CommonOptions::backoff)
      .range(0, 3600)
      .unit("s")
      .help("wait before the first further attempt; each later wait is 4 times as long");
  d.option("item_timeout", &CommonOptions::item_timeout)
      .at_least(0)
      .unit("s")
      .help("longest time without a sign of life from a sample before its process is killed; 0: no limit");
  d.option("item_limit", &CommonOptions::item_limit)
      .at_least(0)
      .unit("s")
      .help(
          "longest time for a sample before its process is killed, whatever its signs of life; waits for the "
          "next stage do not count; 0: no limit");
  d.option("item_retries", &CommonOptions::item_retries)
      .range(0, 100)
      .help("further attempts at a sample whose process died");
  d.option("profile", &CommonOptions::profile)
      .help("trace.json in the job's folder: the workers' activity over time, for chrome://tracing");
}

}  // namespace kinora::engines
