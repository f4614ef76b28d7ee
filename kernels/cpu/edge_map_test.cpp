#include "kernels/cpu/edge_map.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace kinora {
namespace {

TEST(EdgeKernelSize, GrowsWithTheFrameAndIsOdd) {
  EXPECT_EQ(edge_kernel_size({256, 144}), 5);     // 4 + 1
  EXPECT_EQ(edge_kernel_size({1280, 720}), 9);    // 4 + 5
  EXPECT_EQ(edge_kernel_size({1920, 1080}), 13);  // 4 + 8 is even
  EXPECT_EQ(edge_kernel_size({10, 10}), 5);
}

TEST(EdgeThresholds, LieAroundTheMedian) {
  const uint8_t odd[] = {9, 90, 60}, even[] = {10, 20, 31, 200}, bright[] = {250, 250, 250};
  EXPECT_EQ(edge_thresholds(odd, 3).low, 40);
  EXPECT_EQ(edge_thresholds(odd, 3).high, 80);
  EXPECT_EQ(edge_thresholds(even, 4).low, 17);  // of 25.5
  EXPECT_EQ(edge_thresholds(even, 4).high, 34);
  EXPECT_EQ(edge_thresholds(bright, 3).high, 255);
}

// A step is an edge along one of its two columns; a ramp below the thresholds is not an edge.
TEST(Canny, FindsAStepAndNotARamp) {
  const FrameSize size{20, 12};
  std::vector<uint8_t> step(20 * 12), ramp(20 * 12);
  for (size_t i = 0; i < step.size(); ++i) {
    step[i] = i % 20 < 10 ? 50 : 200;
    ramp[i] = static_cast<uint8_t>(4 * (i % 20));
  }
  const auto edges = canny(step.data(), size, {50, 100});
  for (size_t i = 0; i < edges.size(); ++i) EXPECT_EQ(edges[i], i % 20 == 9 ? 255 : 0) << i;
  const auto none = canny(ramp.data(), size, {50, 100});
  EXPECT_EQ(std::count(none.begin(), none.end(), 0), 240);
}

// A weak edge counts only if it continues a strong one.
TEST(Canny, AWeakEdgeNeedsAStrongOne) {
  const FrameSize size{20, 30};
  std::vector<uint8_t> picture(20 * 30, 50);
  for (size_t y = 0; y < 30; ++y)
    for (size_t x = 10; x < 20; ++x) picture[y * 20 + x] = y < 10 ? 150 : 80;
  const auto joined = canny(picture.data(), size, {60, 300});
  EXPECT_EQ(joined[5 * 20 + 9], 255);
  EXPECT_EQ(joined[20 * 20 + 9], 255);
  const auto weak = canny(picture.data(), size, {60, 900});
  EXPECT_EQ(weak[20 * 20 + 9], 0);
}

TEST(WidenEdges, IsTheLargestOfASquare) {
  std::mt19937_64 random(4);
  for (const FrameSize size : {FrameSize{31, 17}, {3, 40}, {1, 1}}) {
    std::vector<uint8_t> edges(static_cast<size_t>(size.width) * static_cast<size_t>(size.height));
    for (uint8_t& edge : edges) edge = random() % 30 == 0 ? 255 : 0;
    for (const int kernel : {3, 5, 9}) {
      const auto wide = widen_edges(edges, size, kernel);
      for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x) {
          uint8_t largest = 0;
          for (int v = std::max(0, y - kernel / 2); v <= std::min(size.height - 1, y + kernel / 2); ++v)
            for (int u = std::max(0, x - kernel / 2); u <= std::min(size.width - 1, x + kernel / 2); ++u)
              largest = std::max<uint8_t>(largest, edges[static_cast<size_t>(v * size.width + u)]);
          ASSERT_EQ(wide[static_cast<size_t>(y * size.width + x)], largest)
              << kernel << " at " << x << ", " << y;
        }
    }
  }
}

}  // namespace
}  // namespace kinora
