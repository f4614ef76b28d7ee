#include "media/orientation.hpp"

#include <gtest/gtest.h>

namespace kinora::video {
namespace {

using Bytes = std::vector<uint8_t>;

// Little-endian, with another tag before it.
Bytes tiff(int type, int value) {
  return {'I',
          'I',
          42,
          0,
          8,
          0,
          0,
          0,
          2,
          0,
          0x0F,
          0x01,
          2,
          0,
          1,
          0,
          0,
          0,
          'x',
          0,
          0,
          0,
          0x12,
          0x01,
          static_cast<uint8_t>(type),
          0,
          1,
          0,
          0,
          0,
          static_cast<uint8_t>(value),
          0,
          0,
          0,
          0,
          0,
          0,
          0};
}

Bytes webp(const Bytes& exif) {
  Bytes out{'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8', ' ', 3, 0, 0, 0, 1, 2, 3, 0};
  for (const char c : {'E', 'X', 'I', 'F'}) out.push_back(static_cast<uint8_t>(c));
  for (const auto b : {exif.size(), size_t{0}, size_t{0}, size_t{0}}) out.push_back(static_cast<uint8_t>(b));
  out.insert(out.end(), exif.begin(), exif.end());
  return out;
}

bool swaps(const Bytes& file) { return Orientation::of(std::span(file)).swaps_sides(); }
bool is_upright(const Bytes& file) { return Orientation::of(std::span(file)).is_upright(); }

TEST(Orientation, OfWebpIsThatOfItsExifChunk) {
  EXPECT_TRUE(swaps(webp(tiff(3, 6))));
  Bytes named{'E', 'x', 'i', 'f', 0, 0};
  const Bytes its = tiff(3, 8);
  named.insert(named.end(), its.begin(), its.end());
  EXPECT_TRUE(swaps(webp(named)));
  EXPECT_FALSE(is_upright(webp(tiff(3, 3))));
  EXPECT_FALSE(swaps(webp(tiff(3, 3))));
}

TEST(Orientation, OfAnythingElseIsUpright) {
  EXPECT_TRUE(is_upright(webp(tiff(3, 1))));
  EXPECT_TRUE(is_upright(webp(tiff(3, 9)))) << "no such value";
  EXPECT_TRUE(is_upright(webp(tiff(4, 6)))) << "no such type";
  EXPECT_TRUE(is_upright({}));
  EXPECT_TRUE(is_upright({0, 0, 0, 20, 'f', 't', 'y', 'p'}));
  const Bytes whole = webp(tiff(3, 6));
  for (size_t n = 0; n + 8 < whole.size(); ++n)  // the tag's value is 8 bytes before the end
    EXPECT_TRUE(is_upright({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)})) << n;
}

}  // namespace
}  // namespace kinora::video
