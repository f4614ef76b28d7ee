#include "media/rotate.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace kinora::video {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes rotated(Bytes from, int width, int height, int pixel_bytes, int degrees) {
  Bytes to(from.size());
  const int to_width = degrees % 180 == 0 ? width : height;
  rotate_plane({from.data(), ptrdiff_t{width} * pixel_bytes}, width, height, pixel_bytes, degrees,
               {to.data(), ptrdiff_t{to_width} * pixel_bytes});
  return to;
}

// 1 2 3
// 4 5 6
TEST(Rotate, TurnsClockwise) {
  const Bytes plane{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(rotated(plane, 3, 2, 1, 0), plane);
  EXPECT_EQ(rotated(plane, 3, 2, 1, 90), (Bytes{4, 1, 5, 2, 6, 3}));
  EXPECT_EQ(rotated(plane, 3, 2, 1, 180), (Bytes{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(rotated(plane, 3, 2, 1, 270), (Bytes{3, 6, 2, 5, 1, 4}));
}

TEST(Rotate, KeepsPixelsWhole) {
  EXPECT_EQ(rotated({1, 2, 3, 4, 5, 6}, 2, 1, 3, 180), (Bytes{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(rotated({1, 2, 3, 4, 5, 6}, 2, 1, 3, 90), (Bytes{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace kinora::video
