// Nodes: their GPUs, and what becomes of the work of those that come and go.
#include "plugins/engines/ray/cluster_testing.hpp"

namespace kinora::ray {
namespace {

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

}  // namespace
}  // namespace kinora::ray
