// Nodes that one scheduler has, in virtual time: the balancer's plan and the scheduler that follows it, against what no
// schedule can exceed.
#include <algorithm>
#include <tuple>

#include "plugins/engines/common/simulated/simulated_testing.hpp"

namespace kinora::engines::simulated {
namespace {

// Decoded on a GPU, then looked at by cores alone.
std::vector<Stage> decoded_clips() {
  std::vector<Stage> out{stage("decode", 4), stage("look", 16, {0})};
  out[0].deviation = 2, out[1].deviation = 8;
  out[0].cost.need.gpus = 1;
  return out;
}
const balance::Node kGpus{8, 64, 8}, kCores{64, 256};

int64_t ended_between(const NodeRun& run, double from, double to) {
  return std::count_if(run.ends.begin(), run.ends.end(), [&](double at) { return at >= from && at < to; });
}

// Where any free core takes any task, the look takes those that the GPUs need, and a quarter is reached.
TEST(SimulatedCluster, KeepsCoresForItsGpus) {
  testing::start();
  for (const bool gpus_first : {true, false}) {
    std::vector<balance::Node> nodes{kGpus, kCores};
    if (!gpus_first) std::swap(nodes[0], nodes[1]);
    const NodeRun run = run_nodes(decoded_clips(), nodes, {}, 1500, 1);
    EXPECT_EQ(run.ends.size(), 1500u);
    EXPECT_GE(run.steady, 0.9);
    EXPECT_LE(run.steady, 1 + 1e-6);
  }
}

// With any task anywhere, small workers sit where the memory is, and large ones find none: three quarters.
TEST(SimulatedCluster, PutsWhatNeedsMemoryWhereMemoryIs) {
  testing::start();
  std::vector<Stage> stages{stage("large", 2), stage("small", 2, {0})};
  stages[0].deviation = stages[1].deviation = 1;
  stages[0].cost.need.memory = 8, stages[1].cost.need.memory = 1;
  std::vector<balance::Node> nodes(2, {16, 128});
  nodes.resize(4, {16, 16});
  EXPECT_GE(run_nodes(stages, nodes, {}, 3000, 1).steady, 0.9);
}

TEST(SimulatedCluster, KeepsNodesOfThreeKindsBusy) {
  testing::start();
  const std::vector<balance::Node> nodes{{32, 256, 4}, {16, 256, 4}, {64, 256}};
  double sum = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const NodeRun run = run_nodes(captioned_clips(), nodes, {}, 2400, seed);
    sum += run.steady;
    EXPECT_LE(run.steady, 1 + 1e-6);
  }
  EXPECT_GE(sum / 3, 0.9);
}

// Pools that start one worker after the other need an hour for this.
TEST(SimulatedCluster, AllPlannedWorkersStartWithinOneReplan) {
  testing::start();
  std::vector<Stage> stages{stage("read", 0.5), stage("caption", 4, {0})};
  stages[1].cost.need.gpus = 0.25, stages[1].starting = 60;
  const NodeRun run = run_nodes(stages, std::vector<balance::Node>(4, {24, 64, 4}), {}, 2000, 1);
  ASSERT_EQ(run.starts[1].size(), 63u) << "beside the first one";
  EXPECT_LE(*std::max_element(run.starts[1].begin(), run.starts[1].end()), 10);
}

// GPUs limit it: 2 a second on two nodes, 4 on four. Inputs that a lost node had are done again.
TEST(SimulatedCluster, ThroughputSettlesWithinTwoReplansWhenNodesComeAndGo) {
  testing::start();
  const std::vector<Change> changes{{Change::comes, 200, 0, kGpus},
                                    {Change::comes, 200, 0, kCores},
                                    {Change::lost, 400, 2},
                                    {Change::leaves, 400, 3}};
  const NodeRun run = run_nodes(decoded_clips(), {kGpus, kCores}, changes, 1700, 1);
  EXPECT_EQ(run.ends.size(), 1700u);
  constexpr double kSettles = 20, kWorks = 20;  // the time of one input
  for (const auto& [from, to, per_second] : {std::tuple{80.0, 200.0, 2.0},
                                             {200 + kSettles + kWorks, 400.0, 4.0},
                                             {400 + kSettles + kWorks, 560.0, 2.0}})
    EXPECT_GE(static_cast<double>(ended_between(run, from, to)), 0.9 * per_second * (to - from)) << from;
}

TEST(SimulatedCluster, EndsEveryInputOnceWhateverComesAndGoes) {
  testing::start();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    uint64_t random = seed << 32;
    const auto up_to = [&](uint64_t n) { return mixed(random++) % (n + 1); };
    const std::vector<balance::Node> nodes(2 + up_to(2), {4, 64, 2});
    std::vector<Change> changes;
    // The first node stays: an ordered stage is there.
    for (size_t node = 1; node < nodes.size(); ++node)
      changes.push_back(
          {up_to(1) ? Change::lost : Change::leaves, 0.1 * static_cast<double>(up_to(300)), node});
    for (uint64_t i = up_to(2); i > 0; --i)
      changes.push_back({Change::comes, 0.1 * static_cast<double>(up_to(300)), 0, {8, 64, 2}});
    const auto inputs = static_cast<int64_t>(1 + up_to(80));
    const NodeRun run = run_nodes(any_stages(100 * seed), nodes, changes, inputs, seed);
    EXPECT_EQ(run.ends.size(), static_cast<size_t>(inputs));
    if (HasFailure()) return;
  }
}

// A hundred nodes that could take eight times as much.
TEST(SimulatedCluster, OfOneSchedulerIsLimitedByTheStoreThatAllNodesShare) {
  testing::start();
  std::vector<Stage> stages{stage("cut", 2), stage("look", 8, {0})};
  stages[0].bytes = 1e9, stages[1].deviation = 8;
  constexpr double kPerSecond = 5;
  const NodeRun run =
      run_nodes(stages, std::vector<balance::Node>(100, {4, 64}), {}, 2000, 1, kPerSecond * stages[0].bytes);
  EXPECT_GE(run.seconds, 2000 / kPerSecond * (1 - 1e-6));
  EXPECT_LE(run.seconds, 1.2 * 2000 / kPerSecond) << "the last ones may be slow";
  EXPECT_LE(run.ends[1800] - run.ends[200], 1.02 * 1600 / kPerSecond);
}

// What each input costs is the same, so the bound follows from the stages alone, and no count of the simulator's.
TEST(SimulatedCluster, OfOneSchedulerNeverExceedsTheBoundByTheTimesAtWhichInputsEnd) {
  testing::start();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Stage> stages = any_stages(100 * seed);
    for (Stage& s : stages) s.deviation = 0, s.cost.out = std::ceil(s.cost.out);
    std::vector<balance::Node> nodes(1 + seed % 3, {4, 64, 2});
    if (seed % 2) nodes.push_back({8, 16, 2});
    const NodeRun run = run_nodes(stages, nodes, {}, 60, seed);
    const double most = most_together(stages, nodes) * (1 + 1e-6);
    for (size_t n = 0; n < run.ends.size(); ++n)
      EXPECT_LE(static_cast<double>(n + 1), most * run.ends[n]) << "of the first " << n + 1;
    EXPECT_LE(run.steady, 1 + 1e-6);
    if (HasFailure()) return;
  }
}

TEST(SimulatedCluster, OfOneSchedulerNeverExceedsTheBound) {
  testing::start();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<balance::Node> nodes(1 + seed % 3, {4, 64, 2});
    if (seed % 2) nodes.push_back({8, 16, 2});
    const NodeRun run =
        run_nodes(any_stages(100 * seed), nodes, {}, 1 + static_cast<int64_t>(seed % 40), seed);
    EXPECT_GE(run.seconds, run.least * (1 - 1e-6));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace kinora::engines::simulated
