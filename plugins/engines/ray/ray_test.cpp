// The engine against a bridge without Ray: outcomes are those of engine/local, whatever dies.
#include "plugins/engines/local/random_testing.hpp"
#include "plugins/engines/ray/cluster_testing.hpp"

namespace kinora::ray {
namespace {

using local::Pipeline;

size_t hash_of(const std::string& text) { return std::hash<std::string>{}(text); }

TEST(RayEngine, TriesASampleAgainWhoseProcessDiedAndFailsItTheSecondTime) {
  OnCluster p;
  p.inputs(6);
  p.add("pass", {}, local::pass);
  std::atomic<int> deaths{0};
  p.chaos.dies = [&](const std::string&, const std::string& key, int event) {
    return event == 1 && (key == "3" || (key == "4" && ++deaths == 1));
  };
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 5}, {"failed", 1}}));
  for (const auto& [key, o] : p.outcomes)
    if (key == "3") {
      EXPECT_EQ(o.reason, "killed in pass, twice");
    }
}

TEST(RayEngine, ASampleThatGivesNoSignOfLifeFailsAloneAndHoldsNoOther) {
  OnCluster p;
  p.inputs(6);
  p.limits.timeout = 1;  // that of a slow machine's calls, too
  p.chaos.hangs = [](const std::string&, const std::string& key, int) { return key == "3"; };
  p.add("pass", {}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 5}, {"failed", 1}}));
  EXPECT_EQ(p.outcomes.back().first, "3");
  EXPECT_NE(p.outcomes.back().second.reason.find("item_timeout"), std::string::npos)
      << p.outcomes.back().second.reason;
}

TEST(RayEngine, ACallThatIsNeverAnsweredCostsAnAttempt) {
  OnCluster p;
  p.inputs(6);
  p.limits.timeout = 0.5;
  p.settings.death_retries = 10;  // a slow machine's calls may be late, too
  p.chaos.drops = {3};
  auto& pass = p.add("pass", {}, local::pass);
  pass.workers = 1;
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 6}}));
  EXPECT_GE(pass.made, 2) << "its process is another one";
}

// What it told before is passed on once.
TEST(RayEngine, ACallThatFallsSilentAfterItsFirstClipCostsAnAttempt) {
  OnCluster p;
  p.inputs(4);
  p.limits.timeout = 0.5;
  p.settings.death_retries = 10;
  std::atomic<int> silent{0};
  p.chaos.hangs = [&](const std::string& stage, const std::string& key, int event) {
    return stage == "cut" && key == "2" && event == 2 && ++silent == 1;
  };
  std::atomic<int> calls{0};
  p.add("cut", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    ++calls;
    for (const char* clip : {"-0", "-1"}) emit(Sample(std::string(in.key()) + clip));
  });
  p.add("look", {0}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 4 + 8}}));
  std::set<std::string> keys;
  for (const auto& [key, outcome] : p.outcomes) EXPECT_TRUE(keys.insert(key).second) << key;
  EXPECT_GE(calls, 5);
}

// The second bridge finds no cluster, and the fourth stays.
TEST(RayEngine, ANewBridgeGoesOnWhereOneHasEnded) {
  OnCluster p;
  p.inputs(200);
  p.settings.death_retries = 0;
  p.chaos.ends_after = {50, 0, 40};
  p.chaos.gone = {1};
  p.add("pass", {}, local::pass);
  p.add("again", {0}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 200}}));
  EXPECT_EQ(p.bridges, 4);
}

// A clock on which so much time passes with each look at it while a bridge, the first one, is silent.
void hurry(OnCluster& p, std::chrono::milliseconds step) {
  const auto silent = std::make_shared<std::atomic<bool>>(false);
  const auto steps = std::make_shared<std::atomic<int>>(0);
  p.chaos.on_silence = [silent] { *silent = true; };
  p.limits.now = [&p, silent, steps, step] {
    if (*silent && p.bridges == 1) ++*steps;
    return std::chrono::steady_clock::now() + steps->load() * step;
  };
}

// No attempt is left that the samples could be charged.
TEST(RayEngine, ABridgeThatStandsStillCostsNoSample) {
  OnCluster p;
  p.inputs(60);
  p.settings.death_retries = 0;
  p.limits.timeout = 10000;
  p.chaos.stands_still = 20;
  hurry(p, std::chrono::milliseconds(2000));
  p.add("pass", {}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 60}}));
  EXPECT_EQ(p.bridges, 2);
}

TEST(RayEngine, AnInstanceThatIsNeverReadyEndsTheRun) {
  OnCluster p;
  p.inputs(3);
  p.limits.timeout = 120;
  p.chaos.mutes = {1};
  hurry(p, std::chrono::milliseconds(300));  // its beats are heard in time, also beside other programs
  p.add("pass", {}, local::pass);
  const std::string error = p.run();
  EXPECT_NE(error.find("stage 'pass': no process of it was ready within 120 s (item_timeout)"),
            std::string::npos)
      << error;
  EXPECT_EQ(p.bridges, 1);
}

// Its sample is done by the others, and the plan has what is left of the node.
TEST(RayEngine, AProcessThatANodeDoesNotBeginIsGivenUpAndTheNodeHasLess) {
  OnCluster p;
  p.inputs(40);
  p.cores = {2, 2};
  p.chaos.unplaced = {3};
  hurry(p, std::chrono::milliseconds(300));
  p.add("pass", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    local::sleep_ms(2);
    emit(std::move(in));
  });
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 40}}));
  EXPECT_EQ(p.bridges, 1);
  const json nodes = json::parse(p.reports.back())["nodes"];
  ASSERT_EQ(nodes.size(), 2u) << nodes;
  EXPECT_EQ(nodes[0]["cores"].get<double>() + nodes[1]["cores"].get<double>(), 3);
}

TEST(RayEngine, WithoutANewBridgeTheRunEndsAndFailsNoSample) {
  OnCluster p;
  p.inputs(200);
  p.limits.wait = 1;
  p.chaos.ends_after = {50};
  p.chaos.gone = {1, 2, 3, 4};
  p.settings.node_losses = 1;
  p.add("pass", {}, local::pass);
  const std::string error = p.run();
  EXPECT_NE(error.find("none came within cluster_wait (no Ray cluster)"), std::string::npos) << error;
  EXPECT_NE(error.find("run the same command again"), std::string::npos) << error;
  EXPECT_EQ(p.counts()["failed"], 0);
  EXPECT_LT(p.outcomes.size(), 200u);
}

TEST(RayEngine, WhatTheEngineRefusesIsTheResultOfTheCall) {
  OnCluster p;
  p.inputs(2);
  p.add("wrong", {}, [](Sample, const Emit& emit, const kinora::Run&) { emit.stored("unknown"); });
  ASSERT_EQ(p.run(), "");
  ASSERT_EQ(p.outcomes.size(), 2u);
  EXPECT_NE(p.outcomes[0].second.reason.find("'unknown', which this stage does not hold"), std::string::npos)
      << p.outcomes[0].second.reason;
}

TEST(RayEngine, ACancelledRunEndsSoon) {
  OnCluster p;
  testing::Run owner("", 4);
  p.cancel_through = &owner;
  p.inputs(1000);
  p.add("pass", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key() == "20") owner.cancel = true;
    local::sleep_ms(1);
    emit(std::move(in));
  });
  EXPECT_EQ(p.run(), "cancelled");
  EXPECT_EQ(p.code, KINORA_ERROR_CANCELLED);
  EXPECT_LT(p.outcomes.size(), 1000u);
}

// Where two stages feed a third, two copies of one sample may come there, whose keys are equal: in one batch the second
// would fail, so that outcomes would depend on what is together.
void without_mixed_batches(Pipeline& p) {
  if (std::none_of(p.stages.begin(), p.stages.end(), [](const Act& act) { return act.from.size() > 1; }))
    return;
  for (Act& act : p.stages) act.batch = 0;
}

// Random graphs whose processes die and whose nodes and bridges are lost: the outcomes are those of engine/local. The
// test ray_losses_all has a thousand seeds.
class RandomLosses : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomLosses, ChangeNoOutcome) {
  for (uint32_t seed = GetParam(); seed < GetParam() + 25; ++seed) {
    SCOPED_TRACE(seed);
    const auto nothing = [](size_t) { return 0; };
    Pipeline here;
    local::RandomStages stages_here, stages_there;
    std::mt19937 random(seed);
    stages_here.scale = stages_there.scale = seed % 2 ? 8 : 1;  // of 8 the larger fields are pieces
    here.options.backoff = 0.0001;
    here.host = use_core;
    local::add_random_stages(here, random, stages_here, nothing);
    without_mixed_batches(here);
    here.inputs(20, 1500);
    ASSERT_EQ(here.run(), "");

    OnCluster there;
    random.seed(seed);
    local::add_random_stages(there, random, stages_there, nothing);
    without_mixed_batches(there);
    there.memory = std::array<uint64_t, 3>{0, 1, 20000 * stages_there.scale}[random() % 3];
    there.settings.queue = 1 + random() % 8;
    there.settings.death_retries = there.settings.node_losses = 100;
    there.cores = {3.0 + random() % 2, 1.0 + random() % 3, 1};
    const int calls = static_cast<int>(random() % 60);
    there.chaos.losses = {{5 + calls, 1}, {10 + calls, 0}, {30 + calls, 2}};
    there.chaos.joins = {{8 + calls, 2}};
    for (auto n = random() % 3; n > 0; --n)
      there.chaos.ends_after.push_back(1 + static_cast<int>(random() % 60));
    there.chaos.dies = once([seed](const std::string& stage, const std::string& key, int event) {
      return !key.empty() && hash_of(std::to_string(seed) + stage + key + std::to_string(event)) % 12 == 0;
    });
    there.inputs(20, 1500);
    ASSERT_EQ(there.run(), "");
    const local::Ends ends = local::ends_of(there), expected = local::ends_of(here);
    local::Ends other;
    std::set_symmetric_difference(ends.begin(), ends.end(), expected.begin(), expected.end(),
                                  std::back_inserter(other));
    EXPECT_EQ(other, local::Ends{}) << ends.size() << " of " << expected.size();
    EXPECT_EQ(stages_there.orders, stages_here.orders);
    if (HasFailure()) return;
  }
}

uint32_t seeds() {
  const char* rounds = std::getenv("KINORA_TEST_ROUNDS");
  return 200 * (rounds ? static_cast<uint32_t>(std::stoul(rounds)) : 1);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLosses, ::testing::Range(0u, seeds(), 25u));

}  // namespace
}  // namespace kinora::ray
