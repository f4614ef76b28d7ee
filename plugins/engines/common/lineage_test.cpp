// Tests of the lineage and the ledger, without a run.
#include "plugins/engines/common/lineage.hpp"

#include <gtest/gtest.h>

#include "kinora/testing.hpp"

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
  EXPECT_LT(ledger.samples().after(second, nullptr), (1u << 20) + 1000);
  EXPECT_TRUE(ledger.has_room(second, nullptr));
  ledger.reserve(1 << 20);
  EXPECT_FALSE(ledger.has_room(second, nullptr));
  EXPECT_TRUE(ledger.has_room({{}, 10}, &first)) << "what leaves at the same time makes room";
  ledger.release(1 << 20);
  ledger.samples().add(second);
  ledger.samples().remove(first);
  EXPECT_GE(ledger.samples().now(), 1u << 20) << "the clone still keeps the bytes";
  ledger.samples().remove(second);
  EXPECT_EQ(ledger.samples().now(), 0u);
}

}  // namespace
}  // namespace kinora::engines
