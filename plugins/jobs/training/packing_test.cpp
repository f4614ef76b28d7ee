#include "plugins/jobs/training/packing.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

int64_t largest(const Packing& packing, const std::vector<int64_t>& costs) {
  std::vector<int64_t> cost;
  for (const auto& row : packing.rows) {
    cost.push_back(0);
    for (const size_t sample : row) cost.back() += costs[sample];
  }
  return *std::max_element(cost.begin(), cost.end());
}

// The least possible cost of the costliest row, by trying every division.
int64_t least_largest(const std::vector<int64_t>& costs, size_t rows) {
  std::vector<int64_t> cost(rows);
  int64_t best = std::numeric_limits<int64_t>::max();
  const std::function<void(size_t)> put = [&](size_t sample) {
    if (sample == costs.size()) {
      best = std::min(best, *std::max_element(cost.begin(), cost.end()));
      return;
    }
    for (auto& row : cost) {
      row += costs[sample];
      if (row < best) put(sample + 1);
      row -= costs[sample];
    }
  };
  put(0);
  return best;
}

TEST(Packing, TakesEachSampleOnceAndLeavesNoRowEmpty) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 200; ++turn) {
    const size_t rows = 1 + random() % 6, samples = rows + random() % 12;
    std::vector<int64_t> costs(samples);
    for (auto& cost : costs) cost = static_cast<int64_t>(random() % 5);  // also 0
    const Packing packing = pack(costs, rows);
    ASSERT_EQ(packing.rows.size(), rows);
    std::multiset<size_t> seen;
    for (const auto& row : packing.rows) {
      EXPECT_FALSE(row.empty());
      EXPECT_TRUE(std::is_sorted(row.begin(), row.end()));
      seen.insert(row.begin(), row.end());
    }
    EXPECT_EQ(seen.size(), samples);
    for (size_t i = 0; i < samples; ++i) EXPECT_EQ(seen.count(i), 1u);
  }
}

TEST(Packing, IsWithinAThirdOfTheBest) {
  std::mt19937 random(5);
  for (int turn = 0; turn < 100; ++turn) {
    const size_t rows = 2 + random() % 2, samples = rows + random() % 6;
    std::vector<int64_t> costs(samples);
    for (auto& cost : costs) cost = 1 + static_cast<int64_t>(random() % 40);
    EXPECT_LE(3 * largest(pack(costs, rows), costs), 4 * least_largest(costs, rows));
  }
}

TEST(Packing, SaysHowEvenTheRowsAre) {
  EXPECT_DOUBLE_EQ(pack({3, 1, 2}, 2).efficiency, 1);            // 3 and 1 + 2
  EXPECT_DOUBLE_EQ(pack({4, 1, 1}, 2).efficiency, 6 / 2.0 / 4);  // 4 and 1 + 1
  EXPECT_DOUBLE_EQ(pack({7}, 1).efficiency, 1);
}

// Half pictures of 16 to 64 tokens, half videos of 5 or 9 latent frames of as many tokens: 64 samples of a
// step in 8 rows, 1,000 steps.
TEST(Packing, FillsRowsOfMixedPicturesAndVideos) {
  std::mt19937 random(7);
  double sum = 0;
  constexpr int kSteps = 1000;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int64_t> costs(64);
    for (auto& cost : costs) {
      const int64_t side = 4 + 2 * static_cast<int64_t>(random() % 3), frames = random() % 2   ? 1
                                                                                : random() % 2 ? 5
                                                                                               : 9;
      cost = side * side * frames;
    }
    sum += pack(costs, 8).efficiency;
  }
  EXPECT_GT(sum / kSteps, 0.97);
  std::printf("          efficiency %.4f\n", sum / kSteps);
}

}  // namespace
}  // namespace kinora::core
