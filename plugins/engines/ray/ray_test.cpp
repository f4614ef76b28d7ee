// The engine against a bridge without Ray: outcomes are those of engine/local, whatever dies.
#include "plugins/engines/local/random_testing.hpp"
#include "plugins/engines/ray/bridge_testing.hpp"

extern "C" const kinora_host* kinora_core_host();

namespace kinora::ray {
namespace {

using local::Pipeline;

// The samples of engines/local's tests are the test's own; those that cross a wire are the host's.
void use_core() { g_host = kinora_core_host(); }

// A pipeline on a cluster of so many nodes.
struct OnCluster : Pipeline {
  std::vector<double> cores{2, 2};
  Chaos chaos{};
  Limits limits{};
  engines::Settings settings{};
  int calls = 0;

  OnCluster() {
    host = use_core;
    settings.backoff = 0.0001;
    settings.death_retries = 1;
    engine = [this](const kinora_pipeline& pipeline, const kinora::Run& run) {
      FakeBridge bridge(stages, cores, chaos);
      Cluster cluster(std::make_unique<Wire>(bridge.socket()), run, limits, json::object());
      settings.nodes = cluster.nodes(10);
      const struct Count {
        int& calls;
        FakeBridge& bridge;
        ~Count() { calls = bridge.calls(); }
      } count{calls, bridge};
      run_on(cluster, pipeline, run, settings);
    };
  }
};

size_t hash_of(const std::string& text) { return std::hash<std::string>{}(text); }

// Dies at most once of each key and event.
auto once(std::function<bool(const std::string&, const std::string&, int)> dies) {
  return [dies = std::move(dies), dead = std::set<std::string>{}](const std::string& stage,
                                                                  const std::string& key, int event) mutable {
    return dies(stage, key, event) && dead.insert(stage + " " + key).second;
  };
}

TEST(RayEngine, GivesSamplesWithTheirFieldsToTheStagesAndBack) {
  OnCluster p;
  p.inputs(5, 100000);
  std::atomic<int> seen{0};
  p.add("cut", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.bytes("mp4")->size() == 100000) ++seen;
    Sample clip = in.clone(std::string(in.key()) + "-0000");
    clip.set("txt", "made");
    clip.set("mp4", std::vector<uint8_t>(70000, 7));
    emit(std::move(clip));
  });
  std::atomic<int> right{0};
  p.add("look", {0}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    const auto bytes = *in.bytes("mp4");
    right += in.text("txt") == "made" && bytes.size() == 70000 && bytes[69999] == 7;
    emit(std::move(in));
  });
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(right, 5);
  EXPECT_EQ(p.outcomes.size(), 10u);
}

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

TEST(RayEngine, ASampleThatGivesNoSignOfLifeEndsItsProcess) {
  OnCluster p;
  p.inputs(3);
  p.limits.timeout = 0.3;
  p.settings.death_retries = 0;
  p.chaos.hangs = true;
  p.add("hang", {}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"failed", 3}}));
  EXPECT_NE(p.outcomes[0].second.reason.find("item_timeout"), std::string::npos)
      << p.outcomes[0].second.reason;
}

TEST(RayEngine, TheEndOfTheBridgeEndsTheRunAndFailsNoSample) {
  OnCluster p;
  p.inputs(200);
  p.chaos.ends_after = 50;
  p.add("pass", {}, local::pass);
  const std::string error = p.run();
  EXPECT_NE(error.find("run the same command again"), std::string::npos) << error;
  EXPECT_EQ(p.counts()["failed"], 0);
  EXPECT_LT(p.outcomes.size(), 200u);
}

TEST(RayEngine, TheLossOfTheLastNodeEndsTheRunAndFailsNoSample) {
  OnCluster p;
  p.inputs(200);
  p.chaos.losses = {{20, 0}, {40, 1}};
  p.add("pass", {}, local::pass);
  const std::string error = p.run();
  EXPECT_NE(error.find("no node is left"), std::string::npos) << error;
  EXPECT_EQ(p.counts()["failed"], 0);
}

TEST(RayEngine, ALostNodeCostsNoSample) {
  OnCluster p;
  p.inputs(100);
  p.cores = {1, 2, 1};
  p.settings.death_retries = 0;
  p.chaos.losses = {{30, 1}, {60, 2}};
  auto& slow = p.add("slow", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    local::sleep_ms(2);
    emit(std::move(in));
  });
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 100}}));
  EXPECT_GE(slow.made, 4);
  const json report = json::parse(p.reports.back());
  EXPECT_EQ(report["nodes_lost"], 2);
  ASSERT_EQ(report["nodes"].size(), 1u) << report;
  EXPECT_EQ(report["nodes"][0]["name"], "node-0");
  EXPECT_EQ(report["nodes"][0]["cores"], 1);
  EXPECT_GE(report["nodes"][0]["workers"], 1);
  const json& stage = report["stages"][0];
  EXPECT_EQ(stage["redone"], stage["died"]) << "nothing else ends a process here";
  EXPECT_GE(stage["redone"], p.calls - 100);
}

TEST(RayEngine, NodesComeAndLeave) {
  OnCluster p;
  p.inputs(120);
  p.cores = {1, 1};
  p.settings.death_retries = 0;
  p.chaos.joins = {{10, 2}, {15, 1}};
  p.chaos.leaves = {{40, 1}, {70, 0}};
  std::atomic<int> busy{0}, most{0}, calls{0};
  p.add("slow", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    const int now = ++busy;
    for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
    }
    ++calls;
    local::sleep_ms(3);
    --busy;
    emit(std::move(in));
  });
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 120}}));
  EXPECT_EQ(calls, 120) << "a node that leaves ends what it works on";
  EXPECT_GT(most, 2);
  EXPECT_LE(most, 5);
}

TEST(RayEngine, HeldInputsOfALostNodeAreTriedAgain) {
  OnCluster p;
  p.inputs(40);
  p.settings.death_retries = 0;
  auto& join = p.add("join", {}, nullptr);
  std::mutex mutex;
  std::map<std::thread::id, std::vector<Sample>> held;  // a "process" is a thread
  join.process = [&](Sample in, const Emit& emit, const kinora::Run&) {
    emit.hold();
    const std::lock_guard lock(mutex);
    held[std::this_thread::get_id()].push_back(in);
  };
  join.finish = [&](const Emit& emit, const kinora::Run&) {
    std::vector<Sample> mine;
    {
      const std::lock_guard lock(mutex);
      mine = std::move(held[std::this_thread::get_id()]);
    }
    for (Sample& sample : mine) emit(std::move(sample));
  };
  p.chaos.losses = {{25, 1}};
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 40}}));
  held.clear();
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

// Random graphs whose processes die and whose nodes are lost: the outcomes are those of engine/local.
class RandomLosses : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomLosses, ChangeNoOutcome) {
  for (uint32_t seed = GetParam(); seed < GetParam() + 25; ++seed) {
    SCOPED_TRACE(seed);
    const auto nothing = [](size_t) { return 0; };
    Pipeline here;
    local::RandomStages stages_here, stages_there;
    std::mt19937 random(seed);
    here.options.backoff = 0.0001;
    here.host = use_core;
    local::add_random_stages(here, random, stages_here, nothing);
    here.inputs(20, 1500);
    ASSERT_EQ(here.run(), "");

    OnCluster there;
    random.seed(seed);
    local::add_random_stages(there, random, stages_there, nothing);
    there.memory = std::array<uint64_t, 3>{0, 1, 20000}[random() % 3];
    there.settings.queue = 1 + random() % 8;
    there.settings.death_retries = 100;
    there.cores = {3.0 + random() % 2, 1.0 + random() % 3, 1};
    // An ordered stage is on the first node, which stays.
    const int calls = static_cast<int>(random() % 60);
    there.chaos.losses = {{5 + calls, 1}, {30 + calls, 2}};
    std::set<std::string> ordered;
    for (const Act& act : there.stages)
      if (act.ordered) ordered.insert(act.name);
    there.chaos.dies = once([seed, ordered](const std::string& stage, const std::string& key, int event) {
      return !ordered.contains(stage) && !key.empty() &&
             hash_of(std::to_string(seed) + stage + key + std::to_string(event)) % 12 == 0;
    });
    there.inputs(20, 1500);
    ASSERT_EQ(there.run(), "");
    EXPECT_EQ(local::ends_of(there), local::ends_of(here));
    EXPECT_EQ(stages_there.orders, stages_here.orders);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLosses, ::testing::Range(0u, 100u, 25u));

}  // namespace
}  // namespace kinora::ray
