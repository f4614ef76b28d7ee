#include "shots/flash_filter.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace kinora::video {
namespace {

struct FlashCase {
  const char* says;
  int64_t min_length;
  const char* frames;  // '#' above the threshold, '.' below; ten frames per second
  std::vector<int64_t> cuts;
};

// The cuts are those of PySceneDetect 0.7.2's FlashFilter in merge mode.
const FlashCase kFlashCases[] = {
    {"nothing happens", 3, "........", {}},
    {"an empty video", 3, "", {}},
    {"the first frame begins no new shot", 3, "#.......", {}},
    {"too near the first frame", 3, "..#.....", {}},
    {"a minimum length after the first frame", 3, "...#....", {3}},
    {"the last frame may be a cut", 3, ".....#", {5}},
    {"a dropped frame restarts the clock", 3, "..#.#......", {}},
    {"and a cut may follow it a minimum length later", 3, "..#..#......", {5}},
    {"bursts before the first cut are dropped", 3, "..########......", {}},
    {"and delay it", 3, "..####..#...", {8}},
    {"two cuts a minimum length apart", 3, "...#..#...", {3, 6}},
    {"an adjacent frame opens a burst that is too short to end", 3, "...##.............", {3}},
    {"a flash inside a minimum length opens one too", 3, "...#.#............", {3}},
    {"a short burst swallows the next cut and ends there", 3, "...#.#.........#......", {3, 15}},
    {"a long burst is one cut at its last frame", 3, "...#.#..#..#......", {3, 11}},
    {"every frame above", 3, "...#########......", {3, 11}},
    {"a burst ends after exactly a minimum length of quiet", 3, "...#####...", {3, 7}},
    {"one quiet frame less and it is still open", 3, "...#####..", {3}},
    {"a burst of exactly a minimum length", 3, "...##..#......", {3, 7}},
    {"a burst one frame shorter", 3, "...##.#......", {3}},
    {"after a burst a new cut counts from its last frame", 3, "...#####...#...", {3, 7, 11}},
    {"two bursts a minimum length apart", 3, "...#####...#####......", {3, 7, 11, 15}},
    {"two bursts further apart", 3, "...#####....#####......", {3, 7, 12, 16}},
    {"a burst open at the end is dropped", 3, "...#..##.#", {3, 6}},
    {"minimum length 0 takes every frame above", 0, "##.#", {0, 1, 3}},
    {"minimum length 1 merges nothing", 1, "##.###.", {1, 3, 4, 5}},
    {"the default", 15, "..............#", {}},
    {"the default, one frame later", 15, "...............#", {15}},
};

constexpr double kFramesPerSecond = 10.0;
constexpr int64_t kFrameMicroseconds = 100000;

std::vector<int64_t> detect(const std::string& frames, int64_t min_length, const std::vector<int64_t>& times,
                            double frames_per_second) {
  FlashFilter filter(FlashFilter::Mode::merge, min_length, nominal_frame_rate(frames_per_second));
  std::vector<int64_t> cuts;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (const auto cut = filter.push(frames[i] == '#', {static_cast<int64_t>(i), times[i]}))
      cuts.push_back(*cut);
  }
  return cuts;
}

std::vector<int64_t> even_times(size_t frames, int64_t start = 0) {
  std::vector<int64_t> times(frames);
  for (size_t i = 0; i < frames; ++i) times[i] = start + static_cast<int64_t>(i) * kFrameMicroseconds;
  return times;
}

TEST(FlashFilter, DecidesLikeTheFlashFilter) {
  for (const FlashCase& c : kFlashCases) {
    const std::string frames = c.frames;
    EXPECT_EQ(detect(frames, c.min_length, even_times(frames.size()), kFramesPerSecond), c.cuts)
        << c.says << ": " << frames;
  }
}

// Matroska stores milliseconds: 15 frames at 24000/1001 last 625.625 ms, or 625 or 626 by its clock. A length
// shorter by half a frame counts as fewer frames.
TEST(FlashFilter, MeasuresTheMinimumLengthInFramesOfTheNominalRate) {
  const std::string frames = "...............#..";
  std::vector<int64_t> times(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) times[i] = std::lround(i * 1001.0 / 24.0) * 1000;
  ASSERT_EQ(times[15], 626000);
  EXPECT_EQ(detect(frames, 15, times, 24000.0 / 1001.0), (std::vector<int64_t>{15}));
  times[15] = 625000;
  EXPECT_EQ(detect(frames, 15, times, 24000.0 / 1001.0), (std::vector<int64_t>{15}));
  times[15] = 604000;
  EXPECT_EQ(detect(frames, 15, times, 24000.0 / 1001.0), (std::vector<int64_t>{}));
}

TEST(FlashFilter, TakesTimeRunningBackwardsForNoTime) {
  EXPECT_EQ(detect("..#", 1, {500000, 400000, 300000}, kFramesPerSecond), (std::vector<int64_t>{}));
}

TEST(FlashFilter, NeverCutsWithoutAFrameRateUnlessAskedForEveryFrame) {
  const std::string frames = "....#....#....";
  EXPECT_EQ(detect(frames, 3, even_times(frames.size()), 0.0), (std::vector<int64_t>{}));
  EXPECT_EQ(detect(frames, 0, even_times(frames.size()), 0.0), (std::vector<int64_t>{4, 9}));
}

TEST(FlashFilter, CutsAscendAtFramesAboveAndDoNotDependOnTheClocksOrigin) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int percent = static_cast<int>(random() % 60);
    std::string frames(1 + random() % 120, '.');
    for (char& frame : frames) frame = static_cast<int>(random() % 100) < percent ? '#' : '.';
    const int64_t min_length = static_cast<int64_t>(random() % 20);
    const auto cuts = detect(frames, min_length, even_times(frames.size()), kFramesPerSecond);
    int64_t previous = -1;
    for (const int64_t cut : cuts) {
      EXPECT_GT(cut, previous);
      EXPECT_GE(cut, min_length);
      EXPECT_EQ(frames[static_cast<size_t>(cut)], '#');
      previous = cut;
    }
    EXPECT_EQ(detect(frames, min_length, even_times(frames.size(), -987654321), kFramesPerSecond), cuts)
        << frames;
  }
}

// suppress: the first frame above the threshold, then the first one a minimum length after each cut.
TEST(FlashFilter, SuppressTakesTheFirstOfABurst) {
  const struct {
    const char* frames;
    std::vector<int64_t> cuts;
  } cases[] = {{"#.......", {}},      {"..#.#...", {4}},           {"...####.", {3, 6}},
               {"...#.#..#", {3, 8}}, {"...#########", {3, 6, 9}}, {"", {}}};
  for (const auto& c : cases) {
    FlashFilter filter(FlashFilter::Mode::suppress, 3, kFramesPerSecond);
    std::vector<int64_t> cuts;
    for (int64_t i = 0; c.frames[i] != 0; ++i)
      if (const auto cut = filter.push(c.frames[i] == '#', {i, i * kFrameMicroseconds})) cuts.push_back(*cut);
    EXPECT_EQ(cuts, c.cuts) << c.frames;
  }
}

}  // namespace
}  // namespace kinora::video
