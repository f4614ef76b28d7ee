// stage/video.flip and stage/video.crop on frames whose pixels all differ.
#include <cmath>
#include <map>

#include <gmock/gmock.h>

#include "crop.hpp"
#include "flip.hpp"
#include "kinora/curation.hpp"
#include "transforms_testing.hpp"

namespace kinora::transforms {
namespace {

using ::testing::HasSubstr;

struct Size {
  int64_t count, height, width;
};

// Different for all pixels and channels of up to 80 pixels.
uint8_t value(const Size& size, int64_t t, int64_t y, int64_t x, int64_t channel) {
  return static_cast<uint8_t>(((t * size.height + y) * size.width + x) * 3 + channel);
}

Sample clip_of(const Size& size) {
  testing::start();
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < size.count * size.height * size.width * 3; ++i)
    pixels.push_back(static_cast<uint8_t>(i));
  Sample out("clip");
  out.set_tensor("frames", std::move(pixels), {size.count, size.height, size.width, 3}, KINORA_DL_UINT, 8);
  return out;
}

uint8_t at(const Pictures& of, int64_t t, int64_t y, int64_t x, int64_t channel) {
  return of.frame(t)[(y * of.width + x) * 3 + channel];
}

bool is_mirrored(const Sample& sample, const Size& size) {
  return at(pictures_of(sample), 0, 0, 0, 0) == value(size, 0, 0, size.width - 1, 0);
}

TEST(VideoFlip, ReversesEachRow) {
  const Size size{2, 3, 5};
  VideoFlip always({.probability = 1}), never({.probability = 0});
  const Sample flipped = passed(always, taken(clip_of(size), 7)),
               same = passed(never, taken(clip_of(size), 7));
  const Pictures a = pictures_of(flipped), b = pictures_of(same);
  ASSERT_EQ(a.count, 2);
  ASSERT_EQ(a.height, 3);
  ASSERT_EQ(a.width, 5);
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t x = 0; x < 5; ++x)
        for (int64_t channel = 0; channel < 3; ++channel) {
          EXPECT_EQ(at(a, t, y, x, channel), value(size, t, y, 4 - x, channel));
          EXPECT_EQ(at(b, t, y, x, channel), value(size, t, y, x, channel));
        }
}

TEST(VideoFlip, MirrorsItsShareOfTheSlotsAndTheSameOnesAgain) {
  const Size size{1, 1, 2};
  const Sample sample = clip_of(size);
  VideoFlip stage({.probability = 0.3}), again({.probability = 0.3});
  constexpr int kSlots = 5000;
  int flipped = 0;
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    const bool is = is_mirrored(passed(stage, taken(sample, slot)), size);
    EXPECT_EQ(is_mirrored(passed(again, taken(sample, slot)), size), is);
    flipped += is;
  }
  EXPECT_NEAR(flipped, kSlots * 0.3, bound(kSlots, 0.3));
}

// The place of the first pixel, after all others were found where it puts them.
std::pair<int64_t, int64_t> place(const Sample& cropped, const Size& from, const Size& to) {
  const Pictures out = pictures_of(cropped);
  EXPECT_EQ(out.count, to.count);
  EXPECT_EQ(out.height, to.height);
  EXPECT_EQ(out.width, to.width);
  const int64_t pixel = at(out, 0, 0, 0, 0) / 3, top = pixel / from.width, left = pixel % from.width;
  for (int64_t t = 0; t < to.count; ++t)
    for (int64_t y = 0; y < to.height; ++y)
      for (int64_t x = 0; x < to.width; ++x)
        for (int64_t channel = 0; channel < 3; ++channel)
          EXPECT_EQ(at(out, t, y, x, channel), value(from, t, top + y, left + x, channel));
  return {top, left};
}

TEST(VideoCrop, TakesTheCentre) {
  const Size from{2, 5, 7};
  VideoCrop square({.height = 3, .width = 3, .at = "center"}), column({.width = 1, .at = "center"}),
      whole({.at = "center"});
  EXPECT_EQ(place(passed(square, clip_of(from)), from, {2, 3, 3}), std::pair(int64_t{1}, int64_t{2}));
  EXPECT_EQ(place(passed(column, clip_of(from)), from, {2, 5, 1}), std::pair(int64_t{0}, int64_t{3}));
  EXPECT_EQ(place(passed(whole, clip_of(from)), from, from), std::pair(int64_t{0}, int64_t{0}));
}

TEST(VideoCrop, TakesEveryPlaceEquallyOftenAndTheSameAgain) {
  const Size from{1, 3, 4}, to{1, 2, 2};
  const Sample sample = clip_of(from);
  VideoCrop stage({.height = 2, .width = 2}), again({.height = 2, .width = 2});
  constexpr int kSlots = 6000;
  std::map<std::pair<int64_t, int64_t>, int> counts;
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    const auto found = place(passed(stage, taken(sample, slot)), from, to);
    ++counts[found];
    EXPECT_EQ(place(passed(again, taken(sample, slot)), from, to), found);
  }
  EXPECT_EQ(counts.size(), 6u) << "2 rows and 3 columns";
  for (const auto& [where, count] : counts) EXPECT_NEAR(count, 1000, bound(kSlots, 1 / 6.0)) << where.first;
}

TEST(VideoCrop, RefusesFramesThatAreTooSmall) {
  VideoCrop high({.height = 4}), wide({.width = 6});
  for (VideoCrop* stage : {&high, &wide})
    EXPECT_THAT(error_of([&] {
                  passed(*stage, clip_of({1, 3, 5}));
                }),
                HasSubstr("its frames of 5x3 pixels are smaller than the rectangle of video.crop"));
  testing::start();
  EXPECT_THAT(error_of([&] { passed(high, Sample("clip")); }), HasSubstr("'clip' has no frames"));
}

}  // namespace
}  // namespace kinora::transforms
