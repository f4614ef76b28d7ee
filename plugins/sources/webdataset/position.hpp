// The position in a data set of shards, and its bytes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace kinora::webdataset {

// FNV-1a, 64 bits: recognises other bytes, no protection against intent.
uint64_t hash_of(std::string_view bytes);

struct Position {
  // The data and the part of them.
  uint64_t shard = 0, shards = 1;  // the part
  uint64_t files = 0, names = 0;   // number of shards, and the hash of their names
  // The place: behind the first `passed` samples of a file, and, if the archive is damaged there, behind the
  // first `lost` of what is lost: the damaged place, and the samples behind it.
  uint64_t file = 0, passed = 0, lost = 0;
  // The last of these samples, which shows whether the file has changed; unused with passed = 0,
  // but for the size, which lost > 0 uses too.
  uint64_t offset = 0, bytes = 0;  // of its first header, unless the file is compressed; size of the file
  std::string key;
};

// "kinora.webdataset/2 HASH SHARD SHARDS FILES NAMES FILE PASSED LOST OFFSET BYTES KEY", HASH of what follows it.
std::string write(const Position&);
// Throws Error(KINORA_ERROR_INVALID) for anything that write() does not make.
Position read_position(std::string_view state);

}  // namespace kinora::webdataset
