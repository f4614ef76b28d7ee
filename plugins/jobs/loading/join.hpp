// Fields that come from another set of shards: those of the sample with the same key.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/run/data_input.hpp"
#include "plugins/jobs/loading/shard_set.hpp"

namespace kinora::core {

// [any-thread] after construction.
class Join {
 public:
  // Reads the keys of the other set; each of its samples takes 16 bytes of memory. Throws Error(KINORA_ERROR_DATA) for
  // a key that comes twice.
  Join(const DataJoin& from, std::shared_ptr<SampleCache> cache);

  const ShardSet& set() const { return set_; }
  bool gives(std::string_view field) const;
  // Identifies the fields and their set.
  std::string identity() const;

  // Throws Error(KINORA_ERROR_DATA) if the other set has no sample with this key.
  void check(const std::string& key) const { find(key); }
  // Sets the fields. Throws Error(KINORA_ERROR_DATA) if the sample with the same key is missing, is damaged
  // or lacks one of them.
  void add_to(WebDatasetSample& sample) const;
  // The facts of the sample with this key; throws as check().
  nlohmann::json facts(const std::string& key) const;

 private:
  struct Place {
    uint64_t hash;  // of the key; two keys may share one
    uint32_t shard, sample;
  };
  void read_keys();
  void refuse_second_keys() const;
  const Place& find(const std::string& key) const;
  std::string key_at(const Place& place) const {
    return set_.reading(place.shard, place.sample,
                        [&](const SampleShard& shard) { return shard.key(place.sample); });
  }
  std::string text_of(const Place& place) const { return set_.text_of(place.shard, place.sample); }

  ShardSet set_;
  std::vector<std::string> fields_;
  std::vector<Place> places_;  // by hash
};

}  // namespace kinora::core
