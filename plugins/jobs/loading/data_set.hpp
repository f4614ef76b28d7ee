// A set of WebDataset shards whose samples are read by number.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/loading/order.hpp"

namespace kinora::core {

// [owner-thread]
class DataSet {
 public:
  // path: a folder, a .tar file or a pattern, local or a URI. The numbers of samples come from .info.json or
  // the index of each shard; a shard without one is read once, and a warning names the remedy. Throws Error
  // for a set without samples.
  explicit DataSet(std::string path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& shards() const { return shards_; }
  // The number of samples of each shard.
  const std::vector<uint64_t>& samples() const { return samples_; }
  uint64_t size() const { return size_; }
  // Identifies the set: names of shards below the folder that they share, and their numbers of samples.
  std::string digest() const;

  // Throws Error(KINORA_ERROR_DATA) with shard, number and offset if the sample is damaged.
  WebDatasetSample read(ShardOrder::Place place);
  // The key alone, from the sample's first header.
  std::string key(ShardOrder::Place place);

 private:
  static constexpr size_t kMostOpen = 64;
  const WebDatasetShard& shard(size_t number);

  std::string path_;
  std::vector<std::string> shards_;
  std::vector<uint64_t> samples_;
  uint64_t size_ = 0;
  std::map<size_t, WebDatasetShard> open_;
  std::list<size_t> used_;  // the open shards, the one used last first
};

}  // namespace kinora::core
