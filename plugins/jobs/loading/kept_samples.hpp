// Which samples of a set its `part` and its `where` keep.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/run/data_input.hpp"
#include "plugins/jobs/loading/shard_set.hpp"

namespace kinora::core {

// The facts of a sample.
using FactsOf = std::function<nlohmann::json(const SampleShard& shard, uint64_t i, const std::string& key)>;

// Returns the numbers of the kept samples of each shard, rising. Reads every key, and the facts of the samples that
// `part` keeps. Throws Error(KINORA_ERROR_INVALID) if none is left, with the condition at fault. facts: [any-thread].
std::vector<std::vector<uint32_t>> kept_samples(const ShardSet& set, const DataInput& input,
                                                const FactsOf& facts);

}  // namespace kinora::core
