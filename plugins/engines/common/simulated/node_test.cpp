// A node in virtual time against closed formulas, and against what no schedule can exceed.
#include "plugins/engines/common/simulated/simulated_testing.hpp"

namespace kinora::engines::simulated {
namespace {

TEST(SimulatedNode, TakesTheWorkOfOneStageDividedByItsCores) {
  testing::start();
  const NodeRun run = run_node({stage("look", 10)}, {8, 64}, 800, 1);
  EXPECT_NEAR(run.seconds, 1000, 0.01);
  EXPECT_NEAR(run.least, 1000, 0.01);
  EXPECT_NEAR(run.work, 8000, 1e-6);
  EXPECT_NEAR(run.steady, 1, 0.02);
}

TEST(SimulatedNode, IsLimitedByItsGpusAndByTheWorkersThatAreAskedFor) {
  testing::start();
  std::vector<Stage> stages{stage("embed", 10)};
  stages[0].cost.need.gpus = 0.5;
  EXPECT_NEAR(run_node(stages, {16, 64, 2}, 400, 1).seconds, 1000, 0.01) << "four share two GPUs";
  stages[0].cost.workers = 2;
  EXPECT_NEAR(run_node(stages, {16, 64, 2}, 400, 1).seconds, 2000, 0.01);
  EXPECT_NEAR(most_per_second(stages, {{16, 64, 2}}), 0.2, 1e-4);
  stages[0].cost.workers = 0;
  EXPECT_NEAR(most_per_second(stages, {{16, 64, 2}, {16, 64, 2}}), 0.8, 1e-4);
  EXPECT_EQ(most_per_second(stages, {{16, 64, 0}}), 0) << "it fits nowhere";
}

TEST(SimulatedNode, MakesOfASampleWhatItsStagesEmit) {
  testing::start();
  std::vector<Stage> stages{stage("cut", 4), stage("look", 2, {0})};
  stages[0].cost.out = 3;
  const NodeRun run = run_node(stages, {4, 64}, 400, 1);
  EXPECT_NEAR(run.work, 400 * (4 + 3 * 2), 1e-6);
  EXPECT_GE(run.seconds, 999.99);
  EXPECT_LE(run.seconds, 1020) << "the last samples may leave cores idle";
  stages[0].cost.out = 0.5;
  EXPECT_NEAR(run_node(stages, {4, 64}, 4000, 1).work / 4000, 4 + 0.5 * 2, 0.1);
}

TEST(SimulatedNode, DrawsCostsOfTheGivenMeanAndDeviation) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = log_normal(2, 1, seed_of(std::to_string(i), 7));
    sum += x, squares += x * x;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 2, 0.02);
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 1, 0.03);
  EXPECT_EQ(log_normal(2, 0, 1), 2);
}

TEST(SimulatedNode, IsTheSameAgainAndAnotherWithAnotherSeed) {
  testing::start();
  const auto seconds = [](uint64_t seed) {
    return run_node(captioned_clips(), {8, 64, 1}, 20, seed).seconds;
  };
  EXPECT_EQ(seconds(3), seconds(3));
  EXPECT_NE(seconds(3), seconds(4));
}

TEST(SimulatedNode, NeverExceedsTheBound) {
  testing::start();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const NodeRun run =
        run_node(any_stages(100 * seed), {4, 64, 2}, 1 + static_cast<int64_t>(seed % 40), seed);
    EXPECT_GE(run.seconds, run.least * (1 - 1e-6));
    EXPECT_GT(run.least, 0);
    if (HasFailure()) return;
  }
}

// With one instance a stage (Scheduler::may_make) or with downstream last it is far below.
TEST(SimulatedNode, KeepsAFullNodeBusy) {
  testing::start();
  for (const int64_t gpus : {4, 1}) {  // the cores, or the GPU, limit it
    const NodeRun run = run_node(captioned_clips(), {32, 256, gpus}, 400, 5);
    EXPECT_GE(run.steady, 0.95) << gpus << " GPUs";
    EXPECT_LE(run.steady, 1 + 1e-6) << gpus << " GPUs";
  }
}

}  // namespace
}  // namespace kinora::engines::simulated
