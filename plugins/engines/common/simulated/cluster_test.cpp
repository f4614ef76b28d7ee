// A cluster in virtual time against closed formulas and its bound.
#include "plugins/engines/common/simulated/simulated_testing.hpp"

namespace kinora::engines::simulated {
namespace {

// Whole ranges of ten days on 50 nodes of 8 cores.
const std::vector<Kind> kFifty{{{8, 64}, 50}};
Job plain_job() { return {{stage("look", 10)}, 40 * 864000, 1e6}; }

TEST(SimulatedCluster, TakesTheWorkDividedByAllCores) {
  testing::start();
  const Job job = plain_job();
  const Bound bound = bound_of(job, kFifty, {});
  EXPECT_NEAR(bound.per_second, 40, 0.01);
  EXPECT_EQ(bound.limit, "cpus");
  EXPECT_EQ(bound.stage, "look");
  const ClusterRun run = run_cluster(job, kFifty, {}, 1);
  EXPECT_NEAR(run.seconds, 864000, 1000);
  EXPECT_EQ(run.redone, 0);
  Job longer = job;
  longer.inputs *= 100;
  EXPECT_NEAR(run_cluster(longer, kFifty, {}, 1).seconds, 86400000, 100000) << "a part of it is simulated";
}

TEST(SimulatedCluster, IsLimitedByTheStoreAndByTheNodesNetwork) {
  testing::start();
  const Job job = plain_job();
  Surroundings around;
  around.store = 20e6;  // half of what the cores could take
  EXPECT_EQ(bound_of(job, kFifty, around).limit, "store");
  EXPECT_NEAR(run_cluster(job, kFifty, around, 1).seconds, 2 * 864000, 5000);
  std::vector<Kind> slow = kFifty;
  slow[0].network = 0.2e6;  // of 0.8e6
  EXPECT_EQ(bound_of(job, slow, {}).limit, "network");
  EXPECT_NEAR(run_cluster(job, slow, {}, 1).seconds, 4 * 864000, 20000);
}

// A range of r seconds that begins anew at each failure takes (exp(f r) - 1) / f on average.
TEST(SimulatedCluster, DoesAFailedNodesRangeAgain) {
  testing::start();
  Surroundings around;
  around.failures = 6;  // a day: one in the four hours of a range
  around.away = around.takeover = 0;
  const ClusterRun run = run_cluster(plain_job(), kFifty, around, 1);
  EXPECT_NEAR(run.seconds / 864000, std::numbers::e - 1, 0.12);
  EXPECT_NEAR(static_cast<double>(run.failed), 6 * 50 * run.seconds / 86400, 300);
  EXPECT_GT(run.redone, 0);
}

// On average a node works a day and the rest of its range, two hours, before it is away for one.
TEST(SimulatedCluster, ADrainedNodeEndsItsRangeAndComesBack) {
  testing::start();
  Surroundings around;
  around.drains = 1;
  const ClusterRun run = run_cluster(plain_job(), kFifty, around, 1);
  EXPECT_EQ(run.redone, 0);
  EXPECT_NEAR(run.seconds / 864000, 27.0 / 26, 0.02);
}

TEST(SimulatedCluster, RefusesNodesThatNeverEndARange) {
  testing::start();
  Surroundings around;
  around.failures = 2400;  // a day: fifty in the half hour of a range
  EXPECT_THROW(run_cluster({{stage("look", 10)}, 144000, 0}, {{{8, 64}, 5}}, around, 1), Error);
}

// In long jobs, whose ends are a small part, and without deviations. If nodes ran tasks on a quarter more cores than
// they have, the eighteenth would be 1.17 of the bound.
TEST(SimulatedCluster, NeverExceedsTheBound) {
  testing::start();
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Job job{any_stages(100 * seed), 1'000'000, 1e6};
    for (Stage& s : job.stages) s.deviation = 0;
    std::vector<Kind> kinds{{{4, 64, 2}, 2 + static_cast<int64_t>(seed % 5)}};
    if (seed % 3 == 0) kinds.push_back({{8, 64, 2}, 3});
    Surroundings around;
    around.failures = seed % 2 ? 0.01 : 0;
    around.store = seed % 4 == 1 ? 2e6 : 0;
    const double least = 1e6 / bound_of(job, kinds, around).per_second;
    EXPECT_GE(run_cluster(job, kinds, around, seed).seconds, least * (1 - 1e-6));
    if (HasFailure()) return;
  }
}

// 100 PB in videos of 100 MB, some of which take several times as long as others; in the second case the store that all
// nodes share gives less than they could take. With one instance a stage (Scheduler::may_make) it is far below.
TEST(SimulatedCluster, AThousandNodesOfWhichTwoPercentFailADayReachTheBound) {
  testing::start();
  const Job job{captioned_clips(), 1'000'000'000, 0.1e9};
  const std::vector<Kind> kinds{{{64, 384e9, 8}, 1000}};
  for (const double store : {0.0, 100e9}) {
    Surroundings around;
    around.failures = 0.02, around.drains = 0.01, around.store = store;
    const Bound bound = bound_of(job, kinds, around);
    EXPECT_EQ(bound.limit, store > 0 ? "store" : "cpus");
    EXPECT_NEAR(bound.per_second, store > 0 ? 1000 : 64000.0 / (30 + 5 * (1 + 3)), 1);
    const ClusterRun run = run_cluster(job, kinds, around, 1);
    const double least = 1e9 / bound.per_second;
    EXPECT_GE(least / run.seconds, 0.95);
    EXPECT_LE(least / run.seconds, 1);
    EXPECT_NEAR(static_cast<double>(run.failed), 20 * run.seconds / 86400, 0.3 * 20 * run.seconds / 86400);
  }
}

}  // namespace
}  // namespace kinora::engines::simulated
