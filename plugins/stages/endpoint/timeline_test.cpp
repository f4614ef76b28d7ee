#include "timeline.hpp"

#include <gtest/gtest.h>

namespace kinora::endpoint {
namespace {

using Bounds = std::vector<std::pair<int64_t, int64_t>>;

Bounds bounds(int64_t frames, int64_t size = 256, int64_t remainder = 128) {
  Bounds out;
  for (const auto& w : windows(frames, size, remainder)) out.emplace_back(w.begin, w.end);
  return out;
}

TEST(Windows, FollowCosmosRemainderRule) {
  const struct {
    int64_t frames;
    Bounds expected;
  } cases[] = {{0, {}},
               {3, {}},
               {4, {{0, 4}}},
               {127, {{0, 127}}},
               {256, {{0, 256}}},
               {257, {{0, 257}}},
               {383, {{0, 383}}},
               {384, {{0, 256}, {256, 384}}},
               {512, {{0, 256}, {256, 512}}},
               {639, {{0, 256}, {256, 639}}},
               {640, {{0, 256}, {256, 512}, {512, 640}}}};
  for (const auto& c : cases) EXPECT_EQ(bounds(c.frames), c.expected) << c.frames;
}

// Every frame is in exactly one window, whatever the numbers.
TEST(Windows, CoverEveryFrameOnce) {
  for (int64_t size = 4; size < 40; size += 3)
    for (int64_t remainder = 1; remainder < 50; remainder += 7)
      for (int64_t frames = 4; frames < 200; ++frames) {
        int64_t next = 0;
        for (const auto& [begin, end] : bounds(frames, size, remainder)) {
          ASSERT_EQ(begin, next);
          ASSERT_GT(end, begin);
          next = end;
        }
        ASSERT_EQ(next, frames);
      }
}

TEST(Timeline, PicksAtTheRateWithinTheWindow) {
  Timeline t;
  t.fps = 24;
  t.frames = 480;
  for (int i = 0; i < 80; ++i) t.at.push_back(i / 4.0);  // four per second
  const auto picked = t.pick({0, 240}, 2, 1000);
  ASSERT_EQ(picked.size(), 20u);
  for (size_t i = 0; i < picked.size(); ++i) EXPECT_EQ(picked[i], 2 * i);
  EXPECT_EQ(t.pick({240, 480}, 2, 1000).front(), 40u);
  EXPECT_EQ(t.pick({0, 480}, 0, 1000).size(), 80u);
  EXPECT_EQ(t.pick({0, 240}, 2, 5), (std::vector<size_t>{0, 10, 20, 28, 38}));
  EXPECT_TRUE(t.pick({1, 5}, 2, 5).empty());
}

TEST(Timeline, PicksNoOftenerThanTheRateWhateverTheTimes) {
  Timeline t;
  t.fps = 30;
  for (int i = 0; i < 300; ++i) t.at.push_back(i * 1.001 / 30 + (i % 7) * 0.001);
  for (const double rate : {0.5, 1.0, 3.0, 7.0}) {
    const auto picked = t.pick({0, 300}, rate, 1000);
    EXPECT_NEAR(static_cast<double>(picked.size()), 10 * rate, 1) << rate;
  }
}

TEST(Timeline, WithoutTimesEachSampleIsAFrame) {
  Timeline t;
  t.at = {0, 1, 2, 3, 4};
  EXPECT_EQ(t.video_frames(), 5);
  EXPECT_EQ(t.frame(3), 3);
}

TEST(Spread, KeepsTheEnds) {
  EXPECT_EQ(spread(10, 3), (std::vector<size_t>{0, 5, 9}));
  EXPECT_EQ(spread(3, 10), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(spread(9, 1), (std::vector<size_t>{4}));
  EXPECT_TRUE(spread(0, 4).empty());
}

}  // namespace
}  // namespace kinora::endpoint
