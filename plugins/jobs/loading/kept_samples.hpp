// Which samples of a set its `part` and its `where` keep.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/run/data_input.hpp"
#include "plugins/jobs/loading/scan_samples.hpp"

namespace kinora::core {

// The facts of a sample.
using FactsOf = std::function<nlohmann::json(const SampleShard& shard, uint64_t i, const std::string& key)>;

struct KeptSamples {
  std::vector<std::vector<uint32_t>> numbers;  // of the kept samples of each shard, rising
  std::vector<UnreadSample> damaged;
  uint64_t without_part = 0, without_where = 0;  // samples that `part` and `where` leave out
};

// Reads every key, and the facts of the samples that `part` keeps. Throws Error(KINORA_ERROR_INVALID) if none is left,
// with the condition at fault. facts: [any-thread], throws Error(KINORA_ERROR_DATA) for a damaged sample.
KeptSamples kept_samples(const ShardSet& set, const DataInput& input, const FactsOf& facts);

}  // namespace kinora::core
