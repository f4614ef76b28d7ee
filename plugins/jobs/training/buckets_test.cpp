#include "plugins/jobs/training/buckets.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

constexpr LatentSize kStill{1, 4, 4}, kWideClip{3, 2, 4}, kTallClip{3, 4, 2}, kLongClip{5, 4, 4};

std::vector<LatentSize> drawn_sizes(std::mt19937& random, size_t count) {
  std::vector<LatentSize> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(std::array{kStill, kWideClip, kTallClip, kLongClip}[random() % 4]);
  return out;
}

// The fewest tokens that the largest microbatch can have: the smallest bound that no size needs too many under.
int64_t least_possible(const std::vector<LatentSize>& sizes, size_t microbatches) {
  std::map<LatentSize, int64_t> count;
  for (const auto& size : sizes) ++count[size];
  for (int64_t bound = 1;; ++bound) {
    int64_t needed = 0;
    for (const auto& [size, n] : count) {
      const int64_t most = bound / positions_of(size);
      needed += most == 0 ? std::numeric_limits<int32_t>::max() : (n + most - 1) / most;
    }
    if (needed <= static_cast<int64_t>(microbatches)) return bound;
  }
}

TEST(Buckets, HoldEachSampleOnceAndOneSizeEach) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 200; ++turn) {
    const size_t microbatches = 4 + random() % 6;
    const auto sizes = drawn_sizes(random, microbatches + random() % 20);
    const Packing buckets = in_buckets(sizes, microbatches);
    ASSERT_EQ(buckets.rows.size(), microbatches);
    std::multiset<size_t> seen;
    int64_t all = 0, largest = 0;
    for (const auto& row : buckets.rows) {
      ASSERT_FALSE(row.empty());
      for (const size_t i : row) EXPECT_EQ(sizes[i], sizes[row[0]]);
      seen.insert(row.begin(), row.end());
      const int64_t tokens = positions_of(sizes[row[0]]) * static_cast<int64_t>(row.size());
      all += tokens;
      largest = std::max<int64_t>(largest, tokens);
    }
    EXPECT_EQ(std::set<size_t>(seen.begin(), seen.end()).size(), sizes.size());
    EXPECT_EQ(seen.size(), sizes.size());
    EXPECT_EQ(largest, least_possible(sizes, microbatches));
    EXPECT_DOUBLE_EQ(buckets.efficiency, static_cast<double>(all) / static_cast<double>(microbatches) /
                                             static_cast<double>(largest));
  }
}

// Two shapes with equally many tokens are two sizes.
TEST(Buckets, TellShapesApart) {
  const Packing buckets = in_buckets({kWideClip, kTallClip, kWideClip, kTallClip, kTallClip}, 2);
  EXPECT_THAT(buckets.rows,
              testing::UnorderedElementsAre(testing::ElementsAre(0, 2), testing::ElementsAre(1, 3, 4)));
  EXPECT_DOUBLE_EQ(buckets.efficiency, 2.5 / 3);
}

TEST(Buckets, ComeWithTheLargestSamplesFirst) {
  const Packing buckets = in_buckets({kStill, kStill, kLongClip, kLongClip}, 3);
  EXPECT_THAT(buckets.rows, testing::ElementsAre(testing::ElementsAre(2), testing::ElementsAre(3),
                                                 testing::ElementsAre(0, 1)));
}

// 256 samples of a step in 32 microbatches: half pictures, half videos, of two sizes each; 200 steps.
TEST(Buckets, AreLessEvenThanPackedRows) {
  std::mt19937 random(7);
  double packed = 0, buckets = 0;
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<LatentSize> sizes;
    for (int i = 0; i < 256; ++i) {
      const int64_t frames = random() % 2 ? 1 : 5, side = random() % 2 ? 4 : 8;
      sizes.push_back({frames, side, side});
    }
    packed += divided(sizes, 32, /*are_buckets=*/false).efficiency / kSteps;
    buckets += divided(sizes, 32, /*are_buckets=*/true).efficiency / kSteps;
  }
  EXPECT_GT(packed, 0.98);
  EXPECT_GT(buckets, 0.85);
  EXPECT_LT(buckets, packed);
  std::printf("          efficiency: packed %.3f, buckets %.3f\n", packed, buckets);
}

TEST(Buckets, NeedAMicrobatchForEachSize) {
  EXPECT_EQ(test::refusal([] {
              in_buckets({kStill, kWideClip, kTallClip}, 2);
            }),
            "3 sizes do not fit 2 microbatches of one size each");
}

}  // namespace
}  // namespace kinora::core
