// kinora data index: the files by which Megatron-Energon, and Kinora, find the samples of a folder of shards.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/jobs/data/problem.hpp"
#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

struct IndexOptions {
  uint64_t threads = 0;       // 0: one a core
  bool again = false;         // reads every shard and replaces split.yaml and dataset.yaml
  std::optional<double> val;  // share of the shards for validation; nothing: as before, else 0
};

struct IndexReport {
  uint64_t shards = 0, samples = 0;
  uint64_t damaged = 0;     // shards that could not be read to their end
  uint64_t duplicates = 0;  // samples whose key an earlier sample has
  uint64_t unchanged = 0;   // shards that were not read again
  bool is_current = false;  // nothing had changed, and nothing was written
  std::vector<std::string> notes;
};

// Writes SHARD.tar.idx next to each shard, and .nv-meta. Each shard is read once, by its headers.
//
// A shard is not read again if its size and time of modification are those of the last index and its .tar.idx
// has the size for its samples. Damaged shards, and those with duplicate keys, are always read again.
// A damaged shard has the samples before the damage. The first of several samples with one key is in
// index.sqlite; all of them are in .tar.idx. Every file appears complete or not at all, .info.json last.
// A split.yaml that something else wrote keeps its parts; it loses what is gone and gets what is new (split_file.hpp).
//
// Throws Error, KINORA_ERROR_CANCELLED if the program is stopped.
IndexReport index_folder(const DataFolder& folder, const IndexOptions& options, const OnProblem& problem);

}  // namespace kinora::data
