// Flashes among the pictures of shots that move.
#include "shots/flashes.hpp"

#include <gtest/gtest.h>

#include "shots/moving_pictures.hpp"

namespace kinora::video {
namespace {

// 20 frames: those of shot 0 before `change` and of shot 1 from it on; the frames [first, end) in this light.
Flashes lit(int change, int first, int end, Light light) {
  Flashes out;
  for (int i = 0; i < 20; ++i)
    out.see(shot_picture(i >= change, i, i >= first && i < end ? light : Light{}).data());
  return out;
}

void expect_flash(const Flashes& flashes, int64_t first, int64_t end, bool in_one_shot) {
  for (int64_t frame = 1; frame < 19; ++frame) {
    const auto flash = flashes.at(frame);
    ASSERT_EQ(flash.has_value(), frame >= first - 1 && frame < end) << frame;
    if (!flash) continue;
    EXPECT_EQ(flash->first, first) << frame;
    EXPECT_EQ(flash->end, end) << frame;
    EXPECT_EQ(flash->is_in_one_shot, in_one_shot) << frame;
  }
}

double mean_difference(const TestPicture& a, const TestPicture& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

TEST(Flashes, WithinAShotThatMoves) {
  ASSERT_GT(mean_difference(shot_picture(0, 9), shot_picture(0, 13)), 25) << "the pictures move";
  for (const Light light : {kLit, kWhite, kUnlit, Light{0, 0}, Light{1, 40}})
    for (const int frames : {1, 2, 3, 4})
      expect_flash(lit(20, 10, 10 + frames, light), 10, 10 + frames, true);
}

TEST(Flashes, WhereTheShotChanges) {
  for (const Light light : {kLit, kUnlit}) {
    expect_flash(lit(10, 10, 12, light), 10, 12, false);
    EXPECT_FALSE(lit(10, 10, 12, light).at(10)->shows_before);
    expect_flash(lit(10, 7, 10, light), 7, 10, false);
    EXPECT_TRUE(lit(10, 7, 10, light).at(8)->shows_before);
  }
  expect_flash(lit(10, 8, 12, kWhite), 8, 12, false);
}

TEST(Flashes, LongOrWeakOnesAreNone) {
  for (int64_t frame = 0; frame < 20; ++frame) {
    EXPECT_FALSE(lit(20, 10, 15, kLit).at(frame)) << frame;
    EXPECT_FALSE(lit(20, 10, 12, {1, 14}).at(frame)) << frame;
    EXPECT_FALSE(lit(10, 20, 20, {}).at(frame)) << "a hard cut, " << frame;
  }
}

TEST(Flashes, AnInsertOfAnotherShotIsNone) {
  for (const Light light : {Light{1, 60}, Light{1.5, 80}, Light{0.6, 0}})
    for (const int frames : {1, 2, 3}) {
      Flashes flashes;
      for (int i = 0; i < 20; ++i) {
        const bool is_insert = i >= 10 && i < 10 + frames;
        flashes.see(shot_picture(is_insert, i, is_insert ? light : Light{}).data());
      }
      for (int64_t frame = 0; frame < 20; ++frame) EXPECT_FALSE(flashes.at(frame)) << frame;
    }
}

TEST(Flashes, AFadeToBlackOrWhiteAndBackIsNone) {
  for (const double end : {0.0, 255.0}) {
    Flashes flashes;
    for (int i = 0; i < 20; ++i) {
      const double share = std::min(1.0, std::abs(i - 10) / 5.0);
      flashes.see(shot_picture(i >= 10, i, {share, end * (1 - share)}).data());
    }
    for (int64_t frame = 0; frame < 20; ++frame) EXPECT_FALSE(flashes.at(frame)) << end << " " << frame;
  }
}

TEST(Flashes, KnowNothingOfFramesThatWereNotSeen) {
  Flashes flashes;
  EXPECT_FALSE(flashes.at(0));
  for (int i = 0; i < 3; ++i) flashes.see(shot_picture(0, i, i > 0 ? kLit : Light{}).data());
  for (int64_t frame = -3; frame < 9; ++frame) EXPECT_FALSE(flashes.at(frame)) << frame;
}

}  // namespace
}  // namespace kinora::video
