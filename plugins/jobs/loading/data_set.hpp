// A set of a table of data: the samples of shards, or a subset of them, with fields that other shards add. They are
// read by number.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/run/data_input.hpp"
#include "plugins/jobs/loading/data_counts.hpp"
#include "plugins/jobs/loading/join.hpp"
#include "plugins/jobs/loading/order.hpp"
#include "plugins/jobs/loading/scan_samples.hpp"
#include "plugins/jobs/loading/shard_set.hpp"

namespace kinora::core {

// A place counts the samples that are kept: place.sample is below samples()[place.shard]. [any-thread] after
// construction.
class DataSet {
 public:
  // input: not a blend. Reads the keys of all samples if the set has a `part` or a `where`, and their facts for the
  // latter. cache: of samples of other storages; null: none. Throws Error for a set without samples.
  explicit DataSet(const DataInput& input, const std::shared_ptr<SampleCache>& cache = nullptr);

  const std::string& path() const { return set_.path(); }
  // The number of kept samples of each shard.
  const std::vector<uint64_t>& samples() const { return samples_; }
  uint64_t size() const { return size_; }
  // The number of samples of its shards.
  uint64_t all() const { return set_.size(); }
  // The damaged samples that were found since the last call without being drawn: by `part` and `where`, and by
  // ShardSet::take_unread().
  std::vector<UnreadSample> take_unread();
  // Identifies the set: names of shards below the folder that they share, their numbers of samples, what is kept and
  // joined.
  std::string digest() const;

  // Throws Error(KINORA_ERROR_DATA) with shard, number and offset if the sample is damaged, or if a joined
  // set lacks it.
  WebDatasetSample read(ShardOrder::Place place) const;
  // The number of bytes that read() reads, but for joined fields.
  uint64_t bytes(ShardOrder::Place place) const;
  // The facts alone: the field json; not an object if there are none. Throws as read().
  nlohmann::json facts(ShardOrder::Place place) const;
  // The key alone, from headers; throws as read().
  std::string key(ShardOrder::Place place) const;
  // "sample 17 of shards/shard-000003.tar", counted in the shard.
  std::string text_of(ShardOrder::Place place) const { return set_.text_of(place.shard, number(place)); }

  // Adds what has been read of its shards, and of joined ones, and what `part` and `where` leave out.
  void add_to(DataCounts& counts) const;

 private:
  uint64_t number(ShardOrder::Place place) const {
    return kept_.empty() ? place.sample : kept_.at(place.shard).at(place.sample);
  }
  // f(shard, number) of the sample, as ShardSet::reading().
  template <class F>
  auto reading(ShardOrder::Place place, const F& f) const {
    const uint64_t i = number(place);
    return set_.reading(place.shard, i, [&](const SampleShard& shard) { return f(shard, i); });
  }
  nlohmann::json facts(const SampleShard& shard, uint64_t i, const std::string& key) const;

  ShardSet set_;
  std::deque<Join> joins_;
  std::string rule_;                         // `part` and `where`; "": every sample is kept
  std::vector<std::vector<uint32_t>> kept_;  // of each shard, the numbers of its samples; empty: all
  std::vector<UnreadSample> unread_;
  uint64_t without_part_ = 0, without_where_ = 0;
  std::vector<uint64_t> samples_;
  uint64_t size_ = 0;
};

}  // namespace kinora::core
