// The plan of a cluster whose nodes come and go, and whose stages' times are measured with noise.
#include "plugins/engines/common/placement.hpp"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "plugins/engines/common/balance/estimate.hpp"

namespace kinora::engines {
namespace {

using Workers = std::vector<int64_t>;
const balance::Node kGpus{8, 64, 8}, kCores{64, 256}, kGone{};

// A stage on GPUs, and one that needs 16 seconds of a core.
std::vector<balance::Stage> decode_and_look() {
  std::vector<balance::Stage> out(2);
  out[0].seconds = 4, out[0].need.gpus = 1;
  out[1].seconds = 16, out[1].from = {0};
  return out;
}

TEST(Placement, LeavesTheCoresOfGpusToTheirStages) {
  Placement placement;
  placement.set_nodes({kGpus, kCores});
  EXPECT_TRUE(placement.look(decode_and_look(), 0, 5));
  EXPECT_EQ(placement.of(0), (Workers{8, 0}));
  EXPECT_EQ(placement.of(1), (Workers{0, 32}));
}

TEST(Placement, CountsDecodersBesideGpus) {
  auto stages = decode_and_look();
  stages[0].need = {.cores = 0.25, .nvdec = 1};
  Placement placement;
  placement.set_nodes({{8, 64, 2, 14, 0}, kCores});
  EXPECT_TRUE(placement.look(stages, 0, 5));
  const Workers decode = placement.of(0);
  ASSERT_EQ(decode.size(), 2u);
  EXPECT_GT(decode[0], 2);
  EXPECT_LE(decode[0], 14);
  EXPECT_EQ(decode[1], 0);
}

TEST(Placement, OfOneNodeIsNone) {
  Placement placement;
  placement.set_nodes({kCores});
  EXPECT_FALSE(placement.look(decode_and_look(), 0, 5));
  EXPECT_EQ(placement.of(0), Workers{});
}

TEST(Placement, KeepsWorkersWhoseNodeStaysWhenOthersComeAndGo) {
  Placement placement;
  placement.set_nodes({kGpus, kCores});
  ASSERT_TRUE(placement.look(decode_and_look(), 0, 5));
  placement.set_nodes({kGpus, kCores, kGpus, kCores});
  EXPECT_TRUE(placement.look(decode_and_look(), 0, 5.1)) << "at once";
  EXPECT_EQ(placement.of(0), (Workers{8, 0, 8, 0}));
  const Workers four = placement.of(1);
  EXPECT_EQ(four[0] + four[2], 0);
  EXPECT_GE(four[1], 32);
  EXPECT_EQ(four[1] + four[3], 64);
  placement.set_nodes({kGpus, kGone, kGpus, kCores});
  EXPECT_TRUE(placement.look(decode_and_look(), 0, 5.2));
  EXPECT_EQ(placement.of(0), (Workers{8, 0, 8, 0}));
  EXPECT_EQ(placement.of(1), (Workers{0, 0, 0, 64}));
  EXPECT_EQ(placement.nodes().size(), 3u);
  placement.set_nodes({kGpus, kGone, kGone, kGone});
  EXPECT_TRUE(placement.look(decode_and_look(), 0, 5.3));
  EXPECT_EQ(placement.of(0), Workers{});
}

// Two of these do not fit one core at the bound; the third is alone on the other.
TEST(Placement, UsesAllNodesAlsoWhereTheBoundDoesNotFit) {
  std::vector<balance::Stage> stages(3);
  stages[0].seconds = 0.085, stages[1].seconds = 0.124, stages[2].seconds = 0.055;
  stages[1].from = {0}, stages[2].from = {1};
  Placement placement;
  placement.set_nodes({{1, 64}, {1, 64}});
  ASSERT_TRUE(placement.look(stages, 1, 5));
  const Workers first = placement.of(0), second = placement.of(1), third = placement.of(2);
  EXPECT_EQ(first, third);
  for (size_t node = 0; node < 2; ++node) EXPECT_EQ(first[node] + second[node], 1) << node;
  EXPECT_FALSE(placement.look(stages, 1, 16)) << "and stays";
}

TEST(Placement, IsNoneWhereAStageFitsNowhere) {
  std::vector<balance::Stage> stages = decode_and_look();
  stages[1].need.memory = 1000;
  Placement placement;
  placement.set_nodes({kGpus, kCores});
  EXPECT_FALSE(placement.look(stages, 0, 5));
  EXPECT_EQ(placement.of(0), Workers{});
}

// Costs of two samples a second with a deviation of half their mean; after half of the time the look is twice as slow.
// A plan from scratch each time would be another one nearly every time.
TEST(Placement, FollowsAStepAndStandsStillBeforeAndAfter) {
  std::mt19937 random(1);
  std::vector<balance::Stage> stages = decode_and_look();
  std::vector<balance::Estimate> seconds(2);
  Placement placement;
  placement.set_nodes({kGpus, kCores});
  constexpr int kStep = 600, kSettles = 40;
  int moves = 0;
  for (int now = 0; now < 2 * kStep; ++now) {
    for (size_t i = 0; i < 2; ++i) {
      const double mean = i == 0 ? 4 : now < kStep ? 16 : 32;
      seconds[i].add(mean * (1 + 0.35 * std::normal_distribution<double>()(random)), 2, now);
      stages[i].seconds = std::max(0.1, seconds[i].value()), stages[i].error = seconds[i].error();
    }
    const bool moved = placement.look(stages, 10, now);
    if (now % kStep > kSettles) moves += moved;
    const Workers look = placement.of(1);
    const int64_t all = std::accumulate(look.begin(), look.end(), int64_t{0});
    if (now == kStep + kSettles) {
      EXPECT_GE(all, 50) << "64 are as fast as the GPUs";
    }
  }
  EXPECT_LE(moves, 12) << "of 112 plans";
}

}  // namespace
}  // namespace kinora::engines
