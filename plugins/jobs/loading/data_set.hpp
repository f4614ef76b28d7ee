// A set of WebDataset shards whose samples are read by number.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "plugins/jobs/loading/open_shards.hpp"
#include "plugins/jobs/loading/order.hpp"
#include "plugins/jobs/loading/set_files.hpp"

namespace kinora::core {

// [any-thread]
class DataSet {
 public:
  // path: a folder, a .tar file or a pattern, local or a URI. The numbers of samples come from .info.json or
  // the index of each shard; a shard without one is read once, and a warning names the remedy. Throws Error
  // for a set without samples. cache: of samples of other storages; null: none.
  explicit DataSet(std::string path, std::shared_ptr<SampleCache> cache = nullptr);

  const std::string& path() const { return path_; }
  // What has been read of it.
  const ReadCounts& counts() const { return files_.counts(); }
  const std::vector<std::string>& shards() const { return shards_; }
  // The number of samples of each shard.
  const std::vector<uint64_t>& samples() const { return samples_; }
  uint64_t size() const { return size_; }
  // Identifies the set: names of shards below the folder that they share, and their numbers of samples.
  std::string digest() const;

  // Throws Error(KINORA_ERROR_DATA) with shard, number and offset if the sample is damaged.
  WebDatasetSample read(ShardOrder::Place place);
  // The number of bytes that read() reads.
  uint64_t bytes(ShardOrder::Place place);
  // The key alone, from the sample's first header.
  std::string key(ShardOrder::Place place);

 private:
  OpenShards::Shard shard(size_t number) { return open_.get(number); }

  std::string path_;
  SetFiles files_;
  std::vector<std::string> shards_;
  std::vector<uint64_t> samples_;
  uint64_t size_ = 0;
  OpenShards open_;
};

}  // namespace kinora::core
