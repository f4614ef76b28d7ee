// The samples of one shard, kept in .nv-meta/kinora.part-* until the whole folder is indexed: an interrupted
// run does not read its shards again.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kinora/energon.hpp"
#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

// Begins the names of these files.
constexpr const char* kPartPrefix = "kinora.part-";

// Name of a shard's file in .nv-meta.
std::string part_name(const Shard& shard);

// [owner-thread] The file appears on commit().
class PartWriter {
 public:
  PartWriter(const DataFolder& folder, const Shard& shard);
  void add(const energon::StoredSample& sample);
  void commit(uint64_t end);

 private:
  void put(uint64_t number);
  void put(std::string_view text);
  void flush_at(size_t bytes);
  Writer out_;
  std::string waiting_;
};

// [owner-thread] Throws Error(KINORA_ERROR_DATA) for a file that is not one.
class PartReader {
 public:
  // Returns nothing if the file is missing or the shard was changed since.
  static std::optional<PartReader> open(const DataFolder& folder, const Shard& shard);
  // The next sample, or nothing at the end.
  std::optional<energon::StoredSample> next();

 private:
  explicit PartReader(RandomBytes bytes) : bytes_(std::move(bytes)) {}
  uint64_t number();
  std::string text();
  void take(void* to, size_t size);
  RandomBytes bytes_;
  std::string block_;
  size_t at_ = 0;      // in the block
  uint64_t next_ = 0;  // offset of the next block
};

}  // namespace kinora::data
