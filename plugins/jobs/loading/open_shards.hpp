// The shards of a set that are open: those that were used last.
#pragma once
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "plugins/jobs/curation/webdataset.hpp"

namespace kinora::core {

// [any-thread] Several threads may open several shards at the same time, each shard once.
class OpenShards {
 public:
  using Shard = std::shared_ptr<const WebDatasetShard>;
  explicit OpenShards(std::function<WebDatasetShard(size_t number)> open) : open_(std::move(open)) {}
  // Throws what open() throws; a later call tries again.
  Shard get(size_t number);

 private:
  static constexpr size_t kMost = 64;
  struct Entry {
    std::shared_future<Shard> shard;
    std::list<size_t>::iterator used;
  };
  // Called under the lock.
  void remove(size_t number);

  const std::function<WebDatasetShard(size_t number)> open_;
  std::mutex mutex_;
  std::map<size_t, Entry> shards_;
  std::list<size_t> used_;  // their numbers, the one used last first
};

}  // namespace kinora::core
