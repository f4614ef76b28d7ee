#include "plugins/jobs/report/plot.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/report/axis.hpp"
#include "plugins/jobs/report/report_testing.hpp"
#include "plugins/jobs/report/series.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

std::vector<std::string> labels(double low, double high, Scale scale, int wanted, bool rounded) {
  std::vector<std::string> out;
  for (const auto& tick : make_axis(low, high, scale, wanted, rounded).ticks) out.push_back(tick.label);
  return out;
}

using testing::ElementsAre;

TEST(Axis, NamesRoundValues) {
  EXPECT_THAT(labels(1, 1000, Scale::linear, 6, false), ElementsAre("200", "400", "600", "800", "1,000"));
  EXPECT_THAT(labels(0.3, 0.41, Scale::linear, 5, true), ElementsAre("0.3", "0.35", "0.4", "0.45"));
  EXPECT_THAT(labels(1e-5, 3e-4, Scale::from_zero, 3, true), ElementsAre("0", "0.0001", "0.0002", "0.0003"));
  EXPECT_THAT(labels(0.03, 0.9, Scale::automatic, 5, true), ElementsAre("0.05", "0.1", "0.2", "0.5", "1"));
  EXPECT_THAT(labels(1e-7, 50, Scale::automatic, 5, true), ElementsAre("10⁻⁶", "10⁻⁴", "10⁻²", "1", "10²"));
  EXPECT_THAT(labels(5, 5, Scale::linear, 2, true), ElementsAre("0", "5", "10"));
}

// Over random ranges of any size: some ticks but not too many, in order, all different, and every value is on
// the axis.
TEST(Axis, IsSoundForAnyRange) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-30, 30), share(0, 1);
  for (int i = 0; i < 20000; ++i) {
    const double a = std::pow(10, exponent(random)) * (random() % 2 ? 1 : -1),
                 b = random() % 3 ? a * (1 + share(random)) : std::pow(10, exponent(random));
    const auto scale = std::array{Scale::linear, Scale::from_zero, Scale::automatic}[random() % 3];
    const Axis axis = make_axis(std::min(a, b), std::max(a, b), scale, 5, random() % 2);
    ASSERT_LE(axis.ticks.size(), 13U) << a << " " << b;
    ASSERT_GE(axis.ticks.size(), 1U) << a << " " << b;
    std::set<std::string> names;
    for (const auto& tick : axis.ticks)
      ASSERT_TRUE(names.insert(tick.label).second) << tick.label << " for " << a << " " << b;
    for (size_t k = 1; k < axis.ticks.size(); ++k) ASSERT_LT(axis.ticks[k - 1].at, axis.ticks[k].at);
    ASSERT_LE(axis.at(std::min(a, b)), axis.at(std::max(a, b)));
  }
}

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

TEST(Plot, AnyNumberOfPointsIsAWholeFigure) {
  for (int n : {0, 1, 2, 3, 12, 50, 5000}) {
    std::map<double, double> values;
    for (int i = 0; i < n; ++i) values[i] = i % 7 == 0 ? 0 : i;
    Html out;
    out.constant("<!DOCTYPE html>");
    plot(out, values, {.title = "Loss"});
    structure_of(out.str());
    EXPECT_EQ(out.str().find("nan"), std::string::npos);
    EXPECT_EQ(out.str().find("inf"), std::string::npos);
  }
}

TEST(Words, NumbersAsAReaderWantsThem) {
  EXPECT_THAT(
      (std::vector{number(0.01234), number(1234.6), number(-3e-7), number(0), number(61.75), number(2.5e17)}),
      ElementsAre("0.0123", "1,235", "-3×10⁻⁷", "0", "61.8", "2.5×10¹⁷"));
  EXPECT_THAT((std::vector{count(1234567), count(-12), counted(1, "clip"), counted(2, "clip")}),
              ElementsAre("1,234,567", "-12", "1\u00A0clip", "2\u00A0clips"));
  EXPECT_THAT((std::vector{duration(0.0812), duration(4), duration(59.97), duration(200.4), duration(3841),
                           duration(-1)}),
              ElementsAre("0.081\u00A0s", "4.0\u00A0s", "1\u00A0min\u00A000\u00A0s",
                          "3\u00A0min\u00A020\u00A0s", "1\u00A0h\u00A004\u00A0min", "unknown"));
  EXPECT_THAT((std::vector{timecode(3.46), timecode(59.96), timecode(3723.5)}),
              ElementsAre("0:03.5", "1:00.0", "1:02:03.5"));
  EXPECT_THAT((std::vector{byte_size(12), byte_size(4096), byte_size(1.5 * (1 << 20))}),
              ElementsAre("12\u00A0bytes", "4\u00A0KiB", "1.5\u00A0MiB"));
}

}  // namespace
}  // namespace kinora::core::report
