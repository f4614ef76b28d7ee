#include "plugins/jobs/loading/order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using Taken = std::pair<size_t, uint64_t>;

std::vector<Taken> taken(const ShardOrder& order, uint64_t first, uint64_t count) {
  std::vector<Taken> out;
  for (uint64_t n = first; n < first + count; ++n) out.emplace_back(order.at(n).shard, order.at(n).sample);
  return out;
}

const std::vector<uint64_t> kShards{3, 0, 5, 1, 120, 7};
constexpr uint64_t kAll = 136;

std::vector<Taken> stored() {
  std::vector<Taken> out;
  for (size_t shard = 0; shard < kShards.size(); ++shard)
    for (uint64_t i = 0; i < kShards[shard]; ++i) out.emplace_back(shard, i);
  return out;
}

TEST(ShardOrder, WithoutShufflingItIsThatOfTheShards) {
  const ShardOrder order(kShards, 0, 1, "s");
  EXPECT_EQ(taken(order, 0, kAll), stored());
  EXPECT_EQ(taken(order, kAll, kAll), stored());
}

TEST(ShardOrder, EachEpochHasEachSampleOnceInAnOrderOfItsOwn) {
  for (const uint64_t shuffle : {2, 10, 136, 100000}) {
    const ShardOrder order(kShards, shuffle, 1, "s");
    std::set<std::vector<Taken>> epochs;
    for (uint64_t epoch = 0; epoch < 5; ++epoch) {
      auto of_epoch = taken(order, epoch * kAll, kAll);
      epochs.insert(of_epoch);
      std::sort(of_epoch.begin(), of_epoch.end());
      EXPECT_EQ(of_epoch, stored()) << shuffle;
    }
    EXPECT_EQ(epochs.size(), 5u) << shuffle;
  }
}

TEST(ShardOrder, SamplesStayNearTheirShardsWithinABlock) {
  const ShardOrder order(std::vector<uint64_t>(100, 10), 20, 1, "s");
  for (uint64_t block = 0; block < 50; ++block) {
    std::set<size_t> shards;
    for (const auto& [shard, sample] : taken(order, block * 20, 20)) shards.insert(shard);
    EXPECT_EQ(shards.size(), 2u);
  }
}

TEST(ShardOrder, DependsOnTheSeedAndTheStreamAlone) {
  const ShardOrder one(kShards, 50, 1, "s"), again(kShards, 50, 1, "s"), seed(kShards, 50, 2, "s"),
      stream(kShards, 50, 1, "t");
  (void)again.at(100 * kAll);  // what was asked before does not matter
  EXPECT_EQ(taken(one, 300, 50), taken(again, 300, 50));
  EXPECT_NE(taken(one, 0, kAll), taken(seed, 0, kAll));
  EXPECT_NE(taken(one, 0, kAll), taken(stream, 0, kAll));
}

// Over 20,000 epochs of 5 samples each of the 120 orders appears about 167 times: chi squared with 119
// degrees of freedom is below 180 with a probability of 0.9998.
TEST(ShardOrder, OrdersOfABlockAreEquallyLikely) {
  const ShardOrder order({5}, 5, 7, "s");
  std::map<std::vector<Taken>, double> seen;
  for (uint64_t epoch = 0; epoch < 20000; ++epoch) seen[taken(order, epoch * 5, 5)] += 1;
  EXPECT_EQ(seen.size(), 120u);
  double chi = 0;
  for (const auto& [which, count] : seen)
    chi += (count - 20000 / 120.0) * (count - 20000 / 120.0) / (20000 / 120.0);
  EXPECT_LT(chi, 180);
}

TEST(LastTwo, TakesTurnsBetweenTwoNumbersWithoutMakingThemAgain) {
  LastTwo<uint64_t> values;
  std::vector<uint64_t> made;
  const auto get = [&](uint64_t number) {
    EXPECT_EQ(values.get(number, [&](uint64_t n) { return made.emplace_back(n) * 10; }), number * 10);
  };
  for (const uint64_t number : {1, 2, 1, 2, 3, 2, 3, 1}) get(number);
  EXPECT_EQ(made, (std::vector<uint64_t>{1, 2, 3, 1}));
}

TEST(BlendOrder, EveryBlockHasTheSharesButForASampleAPart) {
  const std::vector<double> weights{3, 1, 0.5, 1e-3};
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const BlendOrder order(slots_of_weights(weights), 1, "b");
  std::vector<uint64_t> counts(weights.size());
  for (uint64_t slot = 0; slot < 100 * 1024; ++slot) {
    const auto turn = order.at(slot);
    EXPECT_EQ(turn.n, counts[turn.part]++) << slot;
    if ((slot + 1) % 1024 != 0) continue;
    for (size_t part = 0; part < weights.size(); ++part)
      EXPECT_NEAR(static_cast<double>(counts[part]), static_cast<double>(slot + 1) * weights[part] / sum,
                  4.0);
  }
}

TEST(BlendOrder, ASlotFarAwayIsFoundAsFast) {
  const auto slots = slots_of_weights({1, 2});
  const BlendOrder order(slots, 1, "b"), other(slots, 1, "b");
  constexpr uint64_t kFar = uint64_t{1} << 50;
  for (uint64_t slot = kFar; slot < kFar + 3000; ++slot) {
    const auto turn = order.at(slot);
    EXPECT_NEAR(static_cast<double>(turn.n), static_cast<double>(slot) * (turn.part == 0 ? 1 : 2) / 3.0,
                2000);
  }
  EXPECT_EQ(other.at(kFar + 77).n, order.at(kFar + 77).n);
}

TEST(BlendOrder, NeighboursAreRandom) {
  const BlendOrder order(slots_of_weights({1, 1}), 1, "b");
  int alike = 0;
  for (uint64_t slot = 0; slot < 10240; ++slot) alike += order.at(slot).part == order.at(slot + 1).part;
  EXPECT_NEAR(alike, 5120, 4 * 50.6);  // four standard deviations
}

// Each pass takes the next samples of each part, as many as it has slots, in an order of its own.
TEST(BlendOrder, EachPassHasTheSlotsOfEachPart) {
  const std::vector<std::vector<uint64_t>> cases{{7, 3}, {700, 300}, {9, 9},
                                                 {5},    {1, 1023},  {2000, 1, 3000, 47}};
  for (const auto& slots : cases) {
    const BlendOrder order(slots, 1, "b");
    const uint64_t pass = std::accumulate(slots.begin(), slots.end(), uint64_t{0});
    std::vector<uint64_t> next(slots.size());
    std::set<std::vector<size_t>> orders;
    for (uint64_t number = 0; number < 5; ++number) {
      std::vector<size_t> parts;
      for (uint64_t slot = number * pass; slot < (number + 1) * pass; ++slot) {
        const auto turn = order.at(slot);
        EXPECT_EQ(turn.n, next[turn.part]++) << slot;
        parts.push_back(turn.part);
      }
      for (size_t part = 0; part < slots.size(); ++part)
        EXPECT_EQ(next[part], (number + 1) * slots[part]) << number << " " << pass;
      orders.insert(parts);
    }
    EXPECT_EQ(orders.size() > 1, slots.size() > 1) << pass;
  }
}

TEST(BlendOrder, OnePartTakesEverySlot) {
  const BlendOrder alone(slots_of_weights({0.3}), 1, "b");
  for (uint64_t slot = 0; slot < 5000; ++slot) EXPECT_EQ(alone.at(slot).n, slot);
}

TEST(SlotsOfWeights, HaveTheirRatiosHoweverLargeOrSmallTheyAre) {
  constexpr uint64_t kAll = uint64_t{1} << 48;
  using Slots = std::vector<uint64_t>;
  for (const double unit : {1e-308, 1.0, 3e307})
    EXPECT_EQ(slots_of_weights({unit, 3 * unit}), (Slots{kAll / 4, kAll / 4 * 3})) << unit;
  EXPECT_EQ(slots_of_weights({1e308, 1e308}), (Slots{kAll / 2, kAll / 2}));
  EXPECT_EQ(slots_of_weights({1, 1e-20}), (Slots{kAll, 0}));
}

}  // namespace
}  // namespace kinora::core
