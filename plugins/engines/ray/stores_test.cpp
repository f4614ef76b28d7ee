// What the nodes keep of samples, and what of them comes home.
#include <unistd.h>

#include "plugins/engines/ray/cluster_testing.hpp"

namespace kinora::ray {
namespace {

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

}  // namespace
}  // namespace kinora::ray
