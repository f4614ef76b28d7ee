// The order in which training takes samples. It is a function of the slot alone (slot n holds the n-th sample
// that all ranks together take), so that a checkpoint needs one number, any number of ranks agrees, and a
// resume costs nothing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/random.hpp"
#include "plugins/jobs/loading/last_two.hpp"

namespace kinora::core {

// Where the number n < count goes in one of the permutations of the numbers below count, which `which`
// chooses. The same small cost for any count.
uint64_t permuted(uint64_t n, uint64_t count, const Random& random, uint64_t which);

// The order of the samples of one data set, epoch after epoch. Without shuffling it is that of the shards.
// With it, each epoch takes the shards in an order of its own and cuts their samples into blocks of `shuffle`;
// it takes each block in random order. [owner-thread]
class ShardOrder {
 public:
  struct Place {
    size_t shard;
    uint64_t sample;  // of the shard, in its order
  };
  // samples: of each shard; at least one in all. shuffle: 0 or 1 for none. stream: name of the random numbers.
  ShardOrder(std::vector<uint64_t> samples, uint64_t shuffle, uint64_t seed, const std::string& stream);

  // Samples of an epoch.
  uint64_t size() const { return size_; }
  // The n-th sample taken, counted through all epochs.
  Place at(uint64_t n) const;

 private:
  struct Epoch {
    uint64_t number;
    std::vector<size_t> shards;  // in the order in which they are taken
    std::vector<uint64_t> ends;  // number of samples up to the end of each of them
  };
  const Epoch& epoch(uint64_t number) const;

  std::vector<uint64_t> samples_;
  uint64_t shuffle_, size_ = 0;
  Random random_;
  mutable LastTwo<Epoch> epochs_;
};

// Numbers of slots with the ratios of the weights, about 2^48 together: the slots of each part in a pass of a
// blend that has no end. 0 for a part whose share is below 2^-49. weights: positive and finite, one a part.
std::vector<uint64_t> slots_of_weights(const std::vector<double>& weights);

// Chooses the part of a blend that each slot takes its sample from. A pass has exactly `slots` of each part. In every
// 1,024 slots of a pass each part has its share but for a sample or two, and the parts follow each other in random
// order. [owner-thread]
class BlendOrder {
 public:
  struct Turn {
    size_t part;
    uint64_t n;  // the slot takes the part's n-th sample
  };
  // slots: of each part in a pass; positive, below 2^63 together.
  BlendOrder(std::vector<uint64_t> slots, uint64_t seed, const std::string& stream);
  Turn at(uint64_t slot) const;

 private:
  // How many of the first `slots` slots each part has.
  std::vector<uint64_t> counts(uint64_t slots) const;
  std::vector<Turn> deal(uint64_t block) const;
  uint64_t blocks() const { return (left_[0] - 1) / kBlock + 1; }  // of a pass; the last one may be short

  static constexpr uint64_t kBlock = 1024;  // slots whose turns are dealt together
  std::vector<uint64_t> slots_, left_;      // of each part in a pass; of it and the parts behind it
  Random random_;
  mutable LastTwo<std::vector<Turn>> blocks_;
};

}  // namespace kinora::core
