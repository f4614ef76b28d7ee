// Tests of the lineage and the ledger, without a run.
#include "plugins/engines/common/lineage.hpp"

#include <gtest/gtest.h>

#include "kinora/testing.hpp"
#include "plugins/engines/common/remote.hpp"

namespace kinora::engines {
namespace {

struct LineageTest : ::testing::Test {
  LineageTest() { testing::start(); }
  std::shared_ptr<Track> input(const char* key) { return std::make_shared<Track>(std::string(key)); }
  void end(const std::shared_ptr<Track>& track, End how = {}) {
    Sample sample(track->key);
    Weight weight = weigh(sample);
    ledger.samples().add(weight);
    lineage.end(track, std::move(how), std::move(sample), std::move(weight));
  }
  // The keys of the outcomes that can be reported now, each reported.
  std::vector<std::string> told() {
    std::vector<std::string> out;
    while (const auto track = lineage.next()) {
      out.push_back(track->key);
      lineage.told(*track);
    }
    return out;
  }
  using Keys = std::vector<std::string>;

  int notified = 0;
  Ledger ledger{0};
  Lineage lineage{ledger, [this] { ++notified; }};
};

TEST_F(LineageTest, AnInputIsReportedAfterAllThatWasMadeOfIt) {
  const auto video = input("v");
  Lineage::begin_work(*video);
  const auto clip = Lineage::child({video}, "v-0"), part = Lineage::child({clip}, "v-0-x");
  end(video);
  lineage.end_work(video);
  EXPECT_EQ(told(), Keys{}) << "its clip has no outcome yet";
  end(clip);
  EXPECT_EQ(told(), Keys{});
  end(part);
  EXPECT_EQ(told(), (Keys{"v-0-x", "v-0", "v"}));
  EXPECT_EQ(notified, 3);
  EXPECT_EQ(ledger.samples().now(), 0u) << "reported samples cost nothing";
}

TEST_F(LineageTest, WaitsWhileAStageMayMakeMoreOfTheSample) {
  const auto video = input("v");
  Lineage::begin_work(*video);
  end(video);
  EXPECT_EQ(told(), Keys{});
  lineage.end_work(video);
  EXPECT_EQ(told(), Keys{"v"});
}

TEST_F(LineageTest, NamesTheInputsOfASampleThatWasMadeOfSeveral) {
  const auto a = input("a"), b = input("b"), clip = Lineage::child({a}, "a-0"),
             both = Lineage::child({b, clip}, "ab");
  EXPECT_EQ(clip->made, 1);
  EXPECT_EQ(both->made, 2);
  EXPECT_EQ(inputs_of(*both), (std::set<std::string_view>{"a", "b"}));
  EXPECT_TRUE(is_of(*both, "a"));
  EXPECT_FALSE(is_of(*clip, "b"));
}

// A consumed video that waits for its clips keeps what is small.
TEST_F(LineageTest, AConsumedSampleThatWaitsKeepsNoMedia) {
  const auto video = input("v");
  const auto clip = Lineage::child({video}, "v-0");
  Sample sample("v");
  sample.set("mp4", std::vector<uint8_t>(5 << 20));
  sample.set("json", "{}");
  Weight weight = weigh(sample);
  ledger.samples().add(weight);
  lineage.end(video, End::consumed_by("cut"), std::move(sample), std::move(weight));
  EXPECT_LT(ledger.samples().now(), 10000u);
  EXPECT_EQ(video->sample->text("json"), "{}");
  EXPECT_EQ(ledger.samples().peak() >> 20, 5u);
}

// It has no outcome until it ends again; what it was made of waits for that.
TEST_F(LineageTest, WhatLeftAndIsLostBeforeItsReportHasNoOutcomeAnyMore) {
  const auto video = input("v");
  const auto clip = Lineage::child({video}, "v-0", 1), other = Lineage::child({video}, "v-1", 1);
  end(video, End::consumed_by("cut"));
  end(clip);
  end(other);
  const Tracks lost = lineage.lose([](const Sample& sample) { return sample.key() != "v-1"; });
  ASSERT_EQ(lost, Tracks{clip}) << "nothing is stored of what was consumed";
  EXPECT_EQ(told(), Keys{"v-1"});
  ledger.samples().remove(clip->weight);
  end(clip);
  EXPECT_EQ(told(), (Keys{"v-0", "v"}));
  EXPECT_EQ(ledger.samples().now(), 0u);
}

TEST_F(LineageTest, WhatIsKeptForOthersCostsUntilItsReport) {
  const auto video = input("v");
  Sample sample("v");
  sample.set("mp4", std::vector<uint8_t>(1 << 20));
  lineage.keep(*video, sample, weigh(sample), 0);
  EXPECT_GE(ledger.samples().now(), 1u << 20);
  end(video);
  EXPECT_EQ(told(), Keys{"v"});
  EXPECT_EQ(ledger.samples().now(), 0u);
}

TEST(Frontier, PassesWhatNothingCanStillPrecede) {
  Frontier frontier;
  frontier.add({1, 0});
  EXPECT_TRUE(frontier.passed({0, 7}));
  EXPECT_FALSE(frontier.passed({1, 0, 3}));
  EXPECT_FALSE(frontier.passed({2}));
  frontier.remove({1, 0});
  EXPECT_TRUE(frontier.passed({2}));
}

TEST(Ledger, CountsSharedBytesOnceAndReservesWhatIsExpected) {
  testing::start();
  Sample video("v");
  video.set("mp4", std::vector<uint8_t>(1 << 20));
  const Weight first = weigh(video), second = weigh(video.clone("v-0"));
  Ledger ledger(2 << 20);
  ledger.samples().add(first);
  EXPECT_LT(ledger.samples().after(second, nullptr).front(), (1u << 20) + 1000);
  EXPECT_TRUE(ledger.has_room(second, nullptr));
  ledger.reserve({0, 1 << 20});
  EXPECT_FALSE(ledger.has_room(second, nullptr));
  EXPECT_TRUE(ledger.has_room({{}, 10}, &first)) << "what leaves at the same time makes room";
  ledger.release({0, 1 << 20});
  ledger.samples().add(second);
  ledger.samples().remove(first);
  EXPECT_GE(ledger.samples().now(), 1u << 20) << "the clone still keeps the bytes";
  ledger.samples().remove(second);
  EXPECT_EQ(ledger.samples().now(), 0u);
}

TEST(Ledger, CountsPiecesOnTheirNodesAndCopiesWhereACallHasThem) {
  testing::start();
  constexpr uint64_t kMiB = 1 << 20;
  Ledger ledger(8 * kMiB);
  ledger.add_node(4 * kMiB);
  ledger.add_node(16 * kMiB);
  EXPECT_EQ(ledger.bound(ledger.place_of(0)), 4 * kMiB);
  EXPECT_EQ(ledger.bound(ledger.place_of(1)), 8 * kMiB) << "the run's, although the node has more";
  Sample clip("c");
  set_remote(clip, std::make_unique<RemotePieces>(std::vector<RemotePiece>{{1, 3 * kMiB, 0}, {2, kMiB, 1}}));
  const Weight weight = weigh(clip), second = weigh(clip.clone("d"));
  ledger.samples().add(weight);
  ledger.samples().add(second);
  EXPECT_LT(ledger.samples().now(0), 1000u);
  EXPECT_EQ(ledger.samples().by_place()[1], 3 * kMiB);
  EXPECT_EQ(ledger.samples().by_place()[2], kMiB);
  EXPECT_EQ(bytes_at(weight, 1), 3 * kMiB);
  Weight copies;
  add_copies(weight, 1, copies);
  EXPECT_TRUE(ledger.has_room(copies, nullptr));
  ledger.reserve({1, 1});
  EXPECT_FALSE(ledger.has_room(copies, nullptr)) << "the node of three has one left";
  EXPECT_TRUE(ledger.has_room(2, 7 * kMiB)) << "its neighbour has its own bound";
  ledger.samples().add(copies);
  EXPECT_EQ(ledger.samples().now(1), 4 * kMiB);
  for (const Weight& one : {copies, weight, second}) ledger.samples().remove(one);
  EXPECT_EQ(ledger.samples().now(), 0u);
  EXPECT_EQ(ledger.samples().peak(1), 4 * kMiB);
}

TEST(Lineage, KeepsNoPieceForARecord) {
  testing::start();
  struct Noted final : RemotePieces {
    bool& alive;
    explicit Noted(bool& is) : RemotePieces({{1, 1 << 20, 0}}), alive(is) { alive = true; }
    ~Noted() override { alive = false; }
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;
  };
  Ledger ledger(0);
  Lineage lineage(ledger, [] {});
  bool alive = false;
  Sample clip("c");
  clip.set("txt", "a street");
  set_remote(clip, std::make_unique<Noted>(alive));
  Weight weight = weigh(clip);
  ledger.samples().add(weight);
  const auto track = std::make_shared<Track>("c");
  lineage.end(track, End::failed("s", KINORA_ERROR_DATA, "no"), std::move(clip), std::move(weight));
  EXPECT_FALSE(alive);
  EXPECT_EQ(ledger.samples().now(1), 0u);
  EXPECT_EQ(lineage.next()->sample->text("txt"), "a street");
}

}  // namespace
}  // namespace kinora::engines
