// An earlier index of a folder: tells which shards need not be read again, and gives their samples.
#pragma once
#include <memory>

#include "plugins/jobs/data/record.hpp"
#include "plugins/jobs/data/scan_shard.hpp"
#include "plugins/jobs/data/stored_index.hpp"

namespace kinora::data {

class EarlierIndex {
 public:
  // Knows no shard if the index is not the one of the record: another program may have written it.
  explicit EarlierIndex(const DataFolder& folder);

  const Record& record() const { return record_; }
  // [any-thread] Whether the index has the samples of this shard as it is now.
  bool knows(const Shard& shard) const;
  // Whether it knows these shards and no others, in their order.
  bool knows_exactly(const std::vector<Shard>& shards) const;
  // [owner-thread] Gives the samples of a shard that it knows. Throws Error(KINORA_ERROR_DATA) if they are not
  // as many as they were.
  void read(const Shard& shard, const PushPiece& push);

 private:
  Record record_;
  std::map<std::string, Listed> numbers_;
  std::string uri_;                     // of index.sqlite
  std::unique_ptr<StoredIndex> index_;  // opened when it is needed
};

}  // namespace kinora::data
