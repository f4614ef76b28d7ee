#include "shots/frame_times.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace kinora::video {
namespace {

TEST(NominalFrameRate, SnapsToTheRatesOfTelevision) {
  const struct {
    double says, is;
  } cases[] = {
      {24.0, 24.0},
      {23.976, 24000.0 / 1001.0},
      {23.98, 23.98},  // 4e-3 away, so it does not snap to 24000/1001
      {29.97, 30000.0 / 1001.0},
      {19001.0 / 317.0, 60000.0 / 1001.0},
      {59.94, 60000.0 / 1001.0},
      {119.88, 120000.0 / 1001.0},
      {852.0 / 61.0, 852.0 / 61.0},
      {12.5, 12.5},
      {1.0 / 3.0, 1.0 / 3.0},
      {3.14159265358979, 355.0 / 113.0},  // the nearest fraction with a denominator up to 10000
      {0.00005, 0.0001},                  // 1/10000 is slightly nearer than 0
      {0.0, 0.0},
      {-1.0, 0.0},
  };
  for (const auto& c : cases) EXPECT_EQ(nominal_frame_rate(c.says), c.is) << c.says;
  EXPECT_EQ(nominal_frame_rate(std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(nominal_frame_rate(std::numeric_limits<double>::quiet_NaN()), 0.0);
}

TEST(PresentationMicroseconds, RoundsHalfToEvenFromTheStreamsStart) {
  EXPECT_EQ(presentation_microseconds(512, 0, 1, 12288), 41667);
  EXPECT_EQ(presentation_microseconds(3 + 42, 3, 1, 1000), 42000);
  EXPECT_EQ(presentation_microseconds(133500 + 3003, 133500, 1, 90000), 33367);
  EXPECT_EQ(presentation_microseconds(1, 0, 1, 2000000), 0);
  EXPECT_EQ(presentation_microseconds(3, 0, 1, 2000000), 2);
  EXPECT_EQ(presentation_microseconds(0, 90, 1, 90000), -1000);
}

// Python: round(0.0625 * 24) is 2, round(0.1875 * 24) is 4: halves go to the even number.
TEST(NominalFrames, AreRoundedHalfToEvenAndNeverNegative) {
  EXPECT_EQ(nominal_frames_between({0, 0}, {1, 62500}, 24.0), 2);
  EXPECT_EQ(nominal_frames_between({0, 0}, {1, 187500}, 24.0), 4);
  EXPECT_EQ(nominal_frames_between({0, 0}, {15, 625625}, 24000.0 / 1001.0), 15);
  EXPECT_EQ(nominal_frames_between({0, 500}, {15, 0}, 24.0), 0);
  EXPECT_EQ(nominal_frames_between({0, 0}, {1, std::numeric_limits<int64_t>::max()}, 0.0), 0);
}

}  // namespace
}  // namespace kinora::video
