// The samples of a component of kind `source`, as shards of 1,024 neighbouring samples each.
#pragma once
#include <memory>
#include <string>

#include "core/run/data_source.hpp"
#include "plugins/jobs/loading/sample_shard.hpp"

namespace kinora::core {

// [any-thread] after construction.
class SourceShards {
 public:
  static constexpr uint64_t kSamples = 1024;  // of a shard; the last one may have fewer

  // Throws Error(KINORA_ERROR_UNSUPPORTED) for a source whose samples cannot be read by number.
  SourceShards(const DataSource& source, const std::string& path);

  uint64_t size() const { return size_; }  // samples
  // Shard `number` of them. It shares the source, which stays open.
  std::shared_ptr<const SampleShard> shard(uint64_t number) const;

 private:
  std::string path_;
  std::shared_ptr<const SourceInstance> source_;
  uint64_t size_;
};

}  // namespace kinora::core
