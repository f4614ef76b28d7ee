#include "kernels/cpu/frame_hash.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include <gtest/gtest.h>

namespace kinora {
namespace {

std::vector<uint8_t> noise(FrameSize size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> out(static_cast<size_t>(size.width) * static_cast<size_t>(size.height));
  for (uint8_t& value : out) value = static_cast<uint8_t>(random());
  return out;
}

void add_all(FrameHash& hash, FrameSize size, const std::vector<uint8_t>& grey) {
  for (int y = 0; y < size.height; ++y) hash.add(y, grey.data() + ptrdiff_t{y} * size.width);
}

// The mean of the picture over the rectangle that a pixel of the square covers, in double.
double mean_over(const std::vector<uint8_t>& grey, FrameSize size, int side, int x, int y) {
  const double x0 = x * static_cast<double>(size.width) / side,
               x1 = (x + 1) * static_cast<double>(size.width) / side;
  const double y0 = y * static_cast<double>(size.height) / side,
               y1 = (y + 1) * static_cast<double>(size.height) / side;
  double sum = 0;
  for (int row = 0; row < size.height; ++row)
    for (int column = 0; column < size.width; ++column) {
      const double across = std::min<double>(column + 1, x1) - std::max<double>(column, x0);
      const double down = std::min<double>(row + 1, y1) - std::max<double>(row, y0);
      if (across > 0 && down > 0)
        sum += across * down *
               grey[static_cast<size_t>(row) * static_cast<size_t>(size.width) + static_cast<size_t>(column)];
    }
  return sum / ((x1 - x0) * (y1 - y0));
}

TEST(FrameHash, TheSquareIsTheMeanOverAreas) {
  for (const FrameSize size :
       {FrameSize{256, 144}, {64, 64}, {32, 32}, {96, 160}, {33, 35}, {209, 256}, {127, 64}}) {
    FrameHash hash(size, 16, 2);
    const auto grey = noise(size, 5);
    add_all(hash, size, grey);
    const auto square = hash.square();
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        ASSERT_NEAR(square[static_cast<size_t>(y) * 32 + static_cast<size_t>(x)],
                    mean_over(grey, size, 32, x, y), 0.52)
            << size.width << "x" << size.height << " at " << x << ", " << y;
  }
}

TEST(FrameHash, AFrameSmallerThanTheSquareKeepsItsPixels) {
  const FrameSize size{16, 8};
  FrameHash hash(size, 16, 2);
  const auto grey = noise(size, 6);
  add_all(hash, size, grey);
  const auto square = hash.square();
  // Two by four target pixels per source pixel: their areas are inside it.
  for (size_t y = 0; y < 32; ++y)
    for (size_t x = 0; x < 32; ++x) ASSERT_EQ(square[y * 32 + x], grey[y / 4 * 16 + x / 2]) << x << ", " << y;
}

TEST(Dct, IsItsDefinition) {
  for (const size_t n : {size_t{2}, size_t{6}, size_t{32}, size_t{48}}) {
    std::mt19937_64 random(n);
    std::vector<double> x(n), found(n);
    for (double& value : x) value = static_cast<double>(random() % 1000) / 1000;
    const Dct transform(n);
    transform(x.data(), n, found.data());
    for (size_t k = 0; k < n; ++k) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i)
        sum += x[i] * std::cos(std::numbers::pi * (static_cast<double>(i) + 0.5) * static_cast<double>(k) /
                               static_cast<double>(n));
      EXPECT_NEAR(found[k], sum * std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n)), 1e-12)
          << n << " " << k;
    }
  }
}

// All frequencies of a flat picture except the lowest are exactly 0, and 0 is not above the median 0.
TEST(FrameHash, AFlatFrameHasOneBit) {
  for (const uint8_t level : {0, 1, 100, 255}) {
    const FrameSize size{256, 144};
    FrameHash hash(size, 16, 2);
    add_all(hash, size, std::vector<uint8_t>(256 * 144, level));
    const auto bits = hash.take();
    EXPECT_EQ(std::count(bits.begin(), bits.end(), 1), level == 0 ? 0 : 1) << int{level};
  }
}

TEST(FrameHash, HalfOfTheBitsOfANoisyFrameAreSetAndRowsStartAnew) {
  const FrameSize size{256, 144};
  FrameHash hash(size, 16, 2);
  const auto grey = noise(size, 8);
  add_all(hash, size, grey);
  const auto first = hash.take();
  EXPECT_EQ(std::count(first.begin(), first.end(), 1), 128);
  add_all(hash, size, grey);
  EXPECT_EQ(hash.take(), first);
  add_all(hash, size, noise(size, 9));
  EXPECT_GT(hash_distance(hash.take(), first), 0.2);
  EXPECT_EQ(hash_distance(first, first), 0.0);
  EXPECT_EQ(hash_distance({1, 0, 1, 1}, {1, 1, 1, 0}), 0.5);
}

}  // namespace
}  // namespace kinora
