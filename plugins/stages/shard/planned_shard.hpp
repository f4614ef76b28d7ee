// A shard whose samples are decided, and how it is written.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/energon.hpp"

namespace kinora::shard {

// A field of a sample: its bytes, or the file that has them.
struct Content {
  std::string field;
  uint64_t size = 0;
  std::string bytes, uri = {};  // uri: empty if `bytes` are the content
};

struct PlannedSample {
  std::string key;
  std::vector<Content> fields;
};

struct PlannedShard {
  std::string name, uri;
  std::vector<PlannedSample> samples;
  uint64_t size = 0;       // most bytes of the archive without its end
  uint64_t in_memory = 0;  // bytes of the samples that are not in files
};

// The most bytes that the sample adds to an archive.
uint64_t most_in_archive(const PlannedSample& sample);

// [any-thread] Writes the shard and then SHARD.idx; each appears complete or not at all. Returns the samples
// with their places. Throws Error, KINORA_ERROR_CANCELLED if `stop` becomes true.
std::vector<energon::StoredSample> write_shard(const PlannedShard& shard, const std::atomic<bool>& stop);

void write_file(const std::string& uri, std::string_view text);

}  // namespace kinora::shard
