#include "plugins/jobs/report/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core::report {
namespace {

TEST(Series, ThinnedKeepsTheExtremes) {
  std::mt19937 random(5);
  std::vector<Point> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({double(i), double(random() % 1000)});
  const auto thin = thinned(points, 100);
  EXPECT_LE(thin.size(), 200U);
  std::set<std::pair<double, double>> left;
  for (size_t i = 0; i < thin.size(); ++i) {
    left.emplace(std::floor(thin[i].x / 100), thin[i].y);
    if (i > 0) {
      ASSERT_LT(thin[i - 1].x, thin[i].x);
    }
  }
  for (int column = 0; column < 100; ++column) {
    const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
    const auto [low, high] =
        std::minmax_element(points.begin() + 100 * column, points.begin() + 100 * (column + 1), lower);
    EXPECT_TRUE(left.contains({column, low->y}) && left.contains({column, high->y})) << column;
  }
  EXPECT_EQ(peaks({1, 9, 2, 3, 8, 1}, 2), (std::vector<double>{9, 8}));
}

// Smoothing on a log scale averages logarithms: a power law stays one, a constant stays itself.
TEST(Series, SmoothingKeepsStraightLinesStraight) {
  std::vector<Point> line, power;
  for (int i = 0; i < 400; ++i)
    line.push_back({double(i), 3.0 * i}), power.push_back({double(i), std::pow(10, -i / 100.0)});
  for (const auto& p : smoothed(line, 6, 100, false)) {
    if (p.x > 20 && p.x < 380) {
      EXPECT_NEAR(p.y, 3 * p.x, 1e-9);
    }
  }
  for (const auto& p : smoothed(power, 6, 100, true)) {
    if (p.x > 20 && p.x < 380) {
      EXPECT_NEAR(std::log10(p.y), -p.x / 100, 1e-12);
    }
  }
}

TEST(Words, NumbersAsAReaderWantsThem) {
  using testing::ElementsAre;
  EXPECT_THAT((std::vector{count(1234567), count(-12), count(-1234), count(0)}),
              ElementsAre("1,234,567", "-12", "-1,234", "0"));
  EXPECT_THAT((std::vector{duration(0.0812), duration(4), duration(59.97), duration(200.4), duration(3841),
                           duration(-1)}),
              ElementsAre("0.081\u00A0s", "4.0\u00A0s", "1\u00A0min\u00A000\u00A0s",
                          "3\u00A0min\u00A020\u00A0s", "1\u00A0h\u00A004\u00A0min", "unknown"));
  EXPECT_THAT((std::vector{duration(1.25), duration(2.75), duration(1.45), duration(0.96)}),
              ElementsAre("1.3\u00A0s", "2.8\u00A0s", "1.5\u00A0s", "1.0\u00A0s"))
      << "as words.js, whose test has these too";
}

}  // namespace
}  // namespace kinora::core::report
