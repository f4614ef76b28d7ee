// The samples that all ranks of a training take together, slot by slot, from the data of its run file.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run/data_input.hpp"
#include "plugins/jobs/loading/data_set.hpp"

namespace kinora::core {

// [owner-thread]
class DataOrder {
 public:
  struct Draw {
    size_t set;  // below sets()
    ShardOrder::Place place;
    uint64_t n;  // the n-th sample that is taken from this set
  };

  // Opens every set. Throws Error.
  DataOrder(const DataInput& input, uint64_t seed);

  size_t sets() const { return sets_.size(); }
  DataSet& set(size_t i) { return *sets_.at(i); }
  // The sample that slot n takes.
  Draw at(uint64_t slot) const;
  // The sample that takes the place of one that cannot be read: another one of its set. attempt: 1, 2, ...
  Draw instead(const Draw& damaged, uint64_t attempt) const;
  // The key of the sample that slot n takes, or of the one instead of it if its headers are damaged or its key
  // is not accepted (empty: all are). Throws Error after kMostReplaced in a row.
  std::string key(uint64_t slot, const std::function<bool(const std::string&)>& accepts = {});
  static constexpr uint64_t kMostReplaced = 1000;
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
  Node open(const DataInput& input, const std::string& stream, std::string& identity);

  uint64_t seed_;
  std::vector<std::unique_ptr<DataSet>> sets_;
  std::vector<const ShardOrder*> orders_;  // of each set
  Node root_;
  std::string digest_;
};

}  // namespace kinora::core
