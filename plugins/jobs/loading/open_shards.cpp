#include "plugins/jobs/loading/open_shards.hpp"

namespace kinora::core {

OpenShards::Shard OpenShards::get(size_t number) {
  std::promise<Shard> opened;
  std::unique_lock lock(mutex_);
  if (const auto it = shards_.find(number); it != shards_.end()) {
    used_.splice(used_.begin(), used_, it->second.used);
    const auto shard = it->second.shard;
    lock.unlock();
    return shard.get();
  }
  if (shards_.size() == kMost) remove(used_.back());
  used_.push_front(number);
  shards_.emplace(number, Entry{opened.get_future().share(), used_.begin()});
  lock.unlock();
  try {
    auto shard = std::make_shared<const WebDatasetShard>(open_(number));
    opened.set_value(shard);
    return shard;
  } catch (...) {
    opened.set_exception(std::current_exception());
    lock.lock();
    remove(number);
    throw;
  }
}

void OpenShards::remove(size_t number) {
  const auto it = shards_.find(number);
  if (it == shards_.end()) return;
  used_.erase(it->second.used);
  shards_.erase(it);
}

}  // namespace kinora::core
