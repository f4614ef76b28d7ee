// Results of earlier commands in a folder: .nv-meta/kinora.index.json and .nv-meta/kinora.verified.json.
//
//   {"index": "UUID", ..., "shards": {"shard-000000.tar": [BYTES, MODIFIED, SAMPLES], ...}}
//
// MODIFIED: nanoseconds since 1970. A shard that is listed and has the same size and time of modification was
// not changed since. kinora.verified.json has only the shards in which `verify` found no problem, and no
// "index".
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

constexpr const char* kIndexRecord = "kinora.index.json";
constexpr const char* kVerifiedRecord = "kinora.verified.json";

struct Record {
  struct Seen {
    uint64_t size = 0;
    int64_t modified = 0;
    uint64_t samples = 0;
  };
  std::string index;          // content of index.uuid; empty: the index is being written
  uint64_t index_bytes = 0;   // size of index.sqlite
  std::optional<double> val;  // share of the shards for validation
  std::string split;          // the split.yaml that was written, by its hash; empty: none was
  std::map<std::string, Seen> shards;

  // The entry of this shard if it was not changed since.
  const Seen* unchanged(const Shard& shard) const;
  void add(const Shard& shard, uint64_t samples) {
    shards[shard.name] = {shard.size, shard.modified, samples};
  }
};

// Empty if the file does not exist or is not a record. Throws Error of the storage.
Record read_record(const DataFolder& folder, const char* name);
void write_record(const DataFolder& folder, const char* name, const Record& record);

// 16 hexadecimal digits, which differ for different texts.
std::string hash_of(std::string_view text);

}  // namespace kinora::data
