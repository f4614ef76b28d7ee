// The samples that all ranks of a training take together, slot by slot, from the data of its run file.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run/data_input.hpp"
#include "plugins/jobs/loading/data_set.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"

namespace kinora::core {

// [owner-thread]
class DataOrder {
 public:
  struct Draw {
    size_t set;  // below sets()
    ShardOrder::Place place;
    uint64_t n;  // the n-th sample that is taken from this set
  };

  // Opens every set, with the cache of the input if it has one. Throws Error.
  DataOrder(const DataInput& input, uint64_t seed);

  size_t sets() const { return sets_.size(); }
  DataSet& set(size_t i) { return *sets_.at(i); }
  // The sample that slot n takes.
  Draw at(uint64_t slot) const;
  // Calls use(draw, unused) for the sample that slot n takes, then for other samples of its set, always the same
  // ones, until it returns true. If it does not use a sample it returns false and says why, or throws
  // Error(KINORA_ERROR_DATA) for a damaged one; these count in `lost`. Throws Error(KINORA_ERROR_DATA) after 1,000 in a
  // row, with the reasons, or if `lost` has more than it accepts.
  using Use = std::function<bool(const Draw& draw, Unused& unused)>;
  void find_usable(uint64_t slot, const Use& use, LostSamples* lost = nullptr) const;
  // Counts the damaged samples that were found without being drawn (DataSet::take_unread). Throws as
  // LostSamples::add_unread().
  void count_unread(LostSamples& lost) const;
  // The key of the first sample whose headers are sound and whose key is accepted (empty: all are); damaged ones count
  // in `lost`.
  std::string key(uint64_t slot, const std::function<bool(const std::string&)>& accepts = {},
                  LostSamples* lost = nullptr);
  // A draw for messages: "sample 17 of shards/shard-000003.tar".
  std::string text_of(const Draw& draw) const;
  // Slots in which each sample is taken once, or as often as `epochs` say; of a blend by weight, the number of
  // its samples.
  uint64_t pass() const { return root_.slots; }
  // Identifies everything that the order depends on. A state belongs to data with its digest.
  const std::string& digest() const { return digest_; }

 private:
  struct Node {
    size_t set = 0;                     // of a leaf
    std::unique_ptr<ShardOrder> order;  // of a leaf
    std::unique_ptr<BlendOrder> blend;
    std::vector<Node> parts;
    uint64_t slots = 0;
  };
  // The sample of a slot on the given attempt, from 1 on, to replace one that cannot be used.
  Draw instead(const Draw& unusable, uint64_t attempt) const;
  Node open(const DataInput& input, const std::string& stream, std::string& identity);

  uint64_t seed_;
  std::shared_ptr<SampleCache> cache_;  // null: none
  std::vector<std::unique_ptr<DataSet>> sets_;
  std::vector<const ShardOrder*> orders_;  // of each set
  Node root_;
  std::string digest_;
};

}  // namespace kinora::core
