// .nv-meta/split.yaml as a person, a shard job or another program wrote it: which shards are for which part.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinora/energon_files.hpp"

namespace kinora::data {

// Names may have braces, s-{000..012}.tar. An excluded one is a shard or, SHARD/KEY, a sample.
struct SplitFile {
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  std::vector<std::string> exclude;
};

// Reads split_parts and exclude, lists of names in YAML's block or flow style. Nothing if there is anything else.
std::optional<SplitFile> read_split(std::string_view text);
std::string split_text(const SplitFile& split);

struct SplitChange {
  uint64_t gone = 0;     // names without a shard, left out
  uint64_t added = 0;    // new shards, added to `part`
  uint64_t unnamed = 0;  // shards in no part, left so because they are not new
  std::string part;      // train, or the first if there is none of that name
};

// Makes the split name what is there; a shard stays in its parts. is_new: whether the earlier index lacks a shard.
SplitChange adapt(SplitFile& split, const std::vector<energon::ShardInfo>& shards,
                  const std::function<bool(const std::string&)>& is_new);

}  // namespace kinora::data
