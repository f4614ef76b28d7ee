// The engine against a bridge without Ray: outcomes are those of engine/local, whatever dies.
#include <unistd.h>

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
  std::atomic<int> bridges{0};  // that were started
  Stores stores{};              // of the last one, after the run

  OnCluster() {
    host = use_core;
    settings.backoff = 0.0001;
    settings.death_retries = 1;
    settings.remakes = true;
    engine = [this](const kinora_pipeline& pipeline, const kinora::Run& run) {
      struct Started : std::deque<FakeBridge> {
        explicit Started(OnCluster& all) : of(all) {}
        ~Started() {
          for (FakeBridge& bridge : *this) {
            bridge.wait();
            of.stores = bridge.stores();
          }
        }
        OnCluster& of;
      } started(*this);
      const auto connect = [&] {
        FakeBridge& bridge = started.emplace_back(stages, cores, chaos, bridges++);
        return Bridge{nullptr, std::make_shared<Wire>(bridge.socket())};
      };
      Cluster cluster(connect, run, limits, {{"store", store}});
      settings.nodes = cluster.nodes();
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
  EXPECT_EQ(p.stores.kept(), 5u) << "the clips; what leaves the pipeline comes home";
  EXPECT_EQ(p.stores.left(), 0u);
}

TEST(RayEngine, TextsOfARecordComeHomeAndPiecesPassThroughStagesOnce) {
  OnCluster p;
  p.inputs(8);
  p.add("make", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    in.set("mp4", std::vector<uint8_t>(200000, 7));
    in.set("shots.json", std::string(100000, ' '));
    in.set_tensor("frames", std::vector<uint8_t>(60000, 3), {20, 3000}, 1, 8);
    emit(std::move(in));
  });
  p.add("pass", {0}, local::pass);
  std::atomic<int> right{0};
  p.add("look", {1}, [&](Sample in, const Emit&, const kinora::Run&) {
    const auto* frames = in.tensor("frames");
    right += in.bytes("mp4")->back() == 7 && in.text("shots.json")->size() == 100000 && frames &&
             frames->shape[0] == 20 && static_cast<const uint8_t*>(frames->data)[59999] == 3;
  });
  int recorded = 0;
  p.on_done = [&](const kinora_outcome& o) {
    const Sample sample = Sample::borrow(o.sample);
    recorded += sample.text("shots.json").value_or("").size() == 100000 && sample.fields().size() == 1;
    return KINORA_OK;
  };
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(right, 8);
  EXPECT_EQ(recorded, 8);
  EXPECT_EQ(p.stores.kept(), 16u) << "a stage that passes a sample on keeps its pieces";
  EXPECT_EQ(p.stores.left(), 0u);
}

// Samples of 4 MiB, which the second stage is slow to consume.
void add_large(OnCluster& p, int64_t n) {
  p.inputs(n);
  p.add("make", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 4; ++i) {
      Sample clip(std::string(in.key()) + "-" + std::to_string(i));
      clip.set("mp4", std::vector<uint8_t>(4 << 20, 1));
      emit(std::move(clip));
    }
  });
  p.add("slow", {0}, [](Sample, const Emit&, const kinora::Run&) { local::sleep_ms(20); });
}

// At most an emission of each worker that makes them there is beyond the bound.
TEST(RayEngine, EachNodeKeepsItsOwnBound) {
  constexpr uint64_t kMiB = 1 << 20;
  OnCluster p;
  p.cores = {2, 2};
  p.chaos.stores = {16 * kMiB / 10 * 13 + 13, 64 * kMiB / 10 * 13 + 13};
  add_large(p, 16);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 80}}));
  EXPECT_LE(p.stores.peak(0), (16 + 2 * 4) * kMiB);
  EXPECT_LE(p.stores.peak(1), (64 + 2 * 4) * kMiB);
  const json nodes = json::parse(p.reports.back())["nodes"];
  ASSERT_EQ(nodes.size(), 2u) << nodes;
  EXPECT_LE(nodes[0]["bytes_bound"], 16 * kMiB + 13);
  EXPECT_LE(nodes[1]["bytes_bound"], 64 * kMiB + 13);
  EXPECT_GT(nodes[0]["bytes_peak"], 8 * kMiB) << "the bound is used";
  EXPECT_EQ(nodes[0]["bytes"], 0);
  EXPECT_EQ(p.stores.left(), 0u);
}

TEST(RayEngine, TheMemoryOfTheJobIsThatOfEachNode) {
  constexpr uint64_t kMiB = 1 << 20;
  OnCluster p;
  p.cores = {1, 1};
  p.memory = 8 * kMiB;
  add_large(p, 8);
  ASSERT_EQ(p.run(), "");
  EXPECT_LE(p.stores.peak(0), (8 + 4) * kMiB);
  EXPECT_LE(p.stores.peak(1), (8 + 4) * kMiB);
}

TEST(RayEngine, SamplesStayOnTheNodeThatMadeThem) {
  OnCluster p;
  p.cores = {4, 4};
  p.inputs(60);
  auto& make = p.add("make", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    local::sleep_ms(4);
    in.set("mp4", std::vector<uint8_t>(100000, 1));
    emit(std::move(in));
  });
  make.workers = 2;
  p.add("look", {0}, local::consume).workers = 4;
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.stores.kept(), 60u);
  EXPECT_LE(p.stores.moved(), 60u * 100000 / 4) << "half would move if the node did not count";
}

// Calls that wait for each other until so many are there, and count how many there are at once.
class Meeting {
 public:
  explicit Meeting(int expected) : expected_(expected) {}
  void join() {
    {
      std::unique_lock lock(mutex_);
      if (++busy_ > most_) most_ = busy_;
      met_ = met_ || busy_ == expected_;
      changed_.notify_all();
      in_time_ = changed_.wait_for(lock, std::chrono::seconds(60), [&] { return met_; }) && in_time_;
      met_ = true;  // the others need not wait as long
    }
    local::sleep_ms(3);  // one more would be seen
    const std::lock_guard lock(mutex_);
    --busy_;
  }
  int most() const { return most_; }
  bool in_time() const { return in_time_; }

 private:
  const int expected_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false, in_time_ = true;
  int busy_ = 0, most_ = 0;
};

// A node with two GPUs; how many workers of a stage are on each of them.
TEST(RayEngine, WorkersShareTheGpusAndDecodersOfANode) {
  struct Case {
    json has;
    double gpus;
    uint32_t nvdec;
    std::vector<int> workers;
  };
  const std::vector<Case> cases{
      {{{"gpus", 2}, {"model", "H200"}}, 0, 1, {7, 7}},
      {{{"gpus", 2}, {"model", "H200"}}, 0.5, 0, {2, 2}},
      {{{"gpus", 2}, {"model", "H200"}}, 0.5, 4, {2, 1}},
      {{{"gpus", 2}, {"model", "H200"}, {"nvdec", 3}}, 0, 1, {2, 1}},
      {{{"gpus", 2}, {"model", ""}}, 0, 1, {1, 1}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.has);
    const int expected = one.workers[0] + one.workers[1];
    OnCluster p;
    Meeting meeting(expected);
    p.cores = {20};
    p.chaos.has = one.has;
    std::vector<int> seen(2);
    // The first instance tells what the stage needs, and is on the first GPU.
    p.chaos.on_start = [&](const json& start) {
      const json& devices = start.at("devices");
      ++seen.at(devices.empty() ? 0 : devices[0].get<size_t>());
    };
    auto& act = p.add("look", {}, [&](Sample, const Emit&, const kinora::Run&) { meeting.join(); });
    act.cores = 0.5, act.gpus = one.gpus, act.nvdec = one.nvdec;
    p.inputs(40);
    ASSERT_EQ(p.run(), "");
    EXPECT_EQ(meeting.most(), expected);
    EXPECT_EQ(seen, one.workers);
  }
}

// Each process that starts waits for the others, and the first one's call for all of them.
TEST(RayEngine, TheWorkersOfANodesGpusStartSideBySide) {
  OnCluster p;
  Meeting meeting(4);
  std::atomic<int> ready{0};
  p.cores = {8};
  p.chaos.has = {{"gpus", 4}, {"model", "H200"}};
  p.chaos.on_ready = [&] {
    if (++ready > 1) meeting.join();
  };
  auto& caption = p.add("caption", {}, [&](Sample, const Emit&, const kinora::Run&) { meeting.join(); });
  caption.cores = 0.5, caption.gpus = 1;
  p.inputs(20);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(ready, 4);
  EXPECT_TRUE(meeting.in_time());
}

// Clips leave the pipeline, whose owner finds their bytes in files or in the sample.
struct Keeping : OnCluster {
  static constexpr int kInputs = 40;
  std::map<std::string, std::string> found, expected;
  std::set<std::string> folders;

  Keeping() {
    store = ::testing::TempDir() + "ray-store-" + std::to_string(::getpid());
    inputs(kInputs);
    add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
      Sample clip(std::string(in.key()) + "-0000");
      clip.set("txt", in.key());
      clip.set("mp4", std::vector<uint8_t>(100000, static_cast<uint8_t>(std::stoi(std::string(in.key())))));
      emit(std::move(clip));
    });
    for (int i = 0; i < kInputs; ++i)
      expected[std::to_string(i) + "-0000"] = std::string(100000, static_cast<char>(i));
    on_done = [this](const kinora_outcome& o) { return o.made ? take(o) : KINORA_OK; };
  }
  ~Keeping() { std::filesystem::remove_all(store); }

  int32_t take(const kinora_outcome& o) {
    const Sample sample = Sample::borrow(o.sample);
    const std::string key(sample.key());
    std::string& bytes = found[key];
    EXPECT_EQ(sample.text("txt"), key.substr(0, key.find('-')));
    EXPECT_EQ(sample.fields().size(), o.folder ? 1u : 2u) << key;
    if (!o.folder) {
      const auto here = sample.bytes("mp4").value_or(std::span<const uint8_t>());
      bytes.assign(here.begin(), here.end());
      return KINORA_OK;
    }
    EXPECT_EQ(json::parse(o.files), (json{{key + ".mp4", 100000}, {key + ".txt", key.find('-')}}));
    EXPECT_TRUE(folders.insert(o.folder).second) << "two samples in " << o.folder;
    std::ifstream file(std::string(o.folder) + "/" + key + ".mp4");
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    return KINORA_OK;
  }
};

TEST(RayEngine, WhatLeavesThePipelineIsStoredOnItsNode) {
  Keeping p;
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.found, p.expected);
  EXPECT_EQ(p.folders.size(), p.expected.size());
  EXPECT_EQ(p.stores.kept(), 0u);
  EXPECT_LT(json::parse(p.reports.back())["memory"]["peak"], 100000) << "no clip was in this process";
}

TEST(RayEngine, WhatANodeCannotStoreComesHome) {
  Keeping p;
  p.chaos.strangers = {0, 1};
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.found, p.expected);
  EXPECT_TRUE(p.folders.empty());
  EXPECT_GE(json::parse(p.reports.back())["memory"]["peak"], 100000);
}

TEST(RayEngine, WhatADeadProcessHasStoredIsStoredAgain) {
  Keeping p;
  p.cores = {2, 2, 2};
  p.settings.death_retries = 100;
  p.chaos.strangers = {1};
  p.chaos.losses = {{20, 2}};
  p.chaos.dies = once([](const std::string&, const std::string& key, int event) {
    return event == 1 && !key.empty() && std::stoi(key) % 3 == 0;
  });
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 2 * Keeping::kInputs}}));
  EXPECT_EQ(p.found, p.expected);
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

TEST(RayEngine, WaitsForTheFirstNode) {
  OnCluster p;
  p.inputs(3);
  p.chaos.opens_ms = 150;
  p.add("pass", {}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 3}}));
}

TEST(RayEngine, WithoutANodeTheRunEndsAfterClusterWait) {
  OnCluster p;
  p.inputs(3);
  p.cores = {};
  p.limits.wait = 0.5;
  p.chaos.says = "node 10.0.0.5 is not used: it has no free core";
  p.add("pass", {}, local::pass);
  const std::string error = p.run();
  EXPECT_NE(error.find("cluster_wait"), std::string::npos) << error;
  EXPECT_NE(error.find("(" + p.chaos.says + ")"), std::string::npos) << error;
  EXPECT_EQ(p.code, KINORA_ERROR_TIMEOUT);
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

TEST(RayEngine, WithoutItsLastNodeTheRunEndsAfterClusterWaitAndFailsNoSample) {
  OnCluster p;
  p.inputs(200);
  p.limits.wait = 0.3;
  p.chaos.losses = {{20, 0}, {40, 1}};
  p.add("pass", {}, local::pass);
  const std::string error = p.run();
  EXPECT_NE(error.find("no node was left for stage 'pass'"), std::string::npos) << error;
  EXPECT_EQ(p.counts()["failed"], 0);
}

// The call of the first node is never answered, and nothing but the node's end ends it.
TEST(RayEngine, WhatIsLeftOnANodeBeforeItsEndIsDoneElsewhere) {
  OnCluster p;
  p.inputs(20);
  p.cores = {1};
  p.settings.death_retries = 0;
  p.limits.timeout = 20;
  p.chaos.drops = {10};
  p.chaos.left = 5.1;
  p.chaos.leaves = {{10, 0}};
  p.chaos.joins = {{10, 1}};
  p.add("pass", {}, local::pass);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 20}}));
}

// Its state is in this process, so that neither nodes nor bridges take it with them.
TEST(RayEngine, AStageWithStateOutlivesAllNodes) {
  OnCluster p;
  p.inputs(60);
  p.cores = {1, 1};
  p.settings.death_retries = 0;
  p.chaos.ends_after = {25};
  p.chaos.joins = {{15, 1}};
  p.chaos.losses = {{10, 0}, {20, 1}};
  p.add("pass", {}, local::pass);
  std::vector<std::string> seen;
  auto& collect =
      p.add("collect", {0}, [&](Sample in, const Emit&, const kinora::Run&) { seen.emplace_back(in.key()); });
  collect.ordered = true;
  collect.finish = [&](const Emit& emit, const kinora::Run&) {
    Sample report("report");
    report.set("txt", std::to_string(seen.size()));
    emit(std::move(report));
  };
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 61}}));
  EXPECT_EQ(p.bridges, 2);
  std::vector<std::string> expected;
  for (int i = 0; i < 60; ++i) expected.push_back(std::to_string(i));
  EXPECT_EQ(seen, expected);
}

TEST(RayEngine, ALostNodeCostsNoSample) {
  OnCluster p;
  p.inputs(100);
  p.cores = {1, 2, 1};
  p.settings.death_retries = 0;
  p.chaos.losses = {{30, 1}, {60, 2}};
  std::atomic<int> calls{0};
  auto& slow = p.add("slow", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    ++calls;
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
  const int redone = stage["redone"];
  EXPECT_GE(redone, 1);
  EXPECT_LE(redone, 2 + 1 + 2) << "calls of three workers, and again those that the second node took over";
  EXPECT_LE(redone, stage["died"]) << "some had no call just then";
  EXPECT_GE(calls, 100);
  EXPECT_LE(calls, 100 + redone) << "nothing else is done again";
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
