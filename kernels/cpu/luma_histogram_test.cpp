#include "kernels/cpu/luma_histogram.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace kinora {
namespace {

std::vector<uint8_t> random_luma(size_t n, uint64_t seed, int spread) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> out(n);
  for (uint8_t& value : out)
    value = static_cast<uint8_t>(100 + static_cast<int>(random() % static_cast<uint64_t>(spread)));
  return out;
}

TEST(LumaHistogram, CountsAndHasLengthOne) {
  for (const int bins : {2, 3, 16, 100, 255, 256}) {
    LumaHistogram histogram(bins);
    const auto luma = random_luma(1003, 3, 150);
    histogram.add(luma.data(), 500);
    histogram.add(luma.data() + 500, 503);
    std::vector<double> counts(static_cast<size_t>(bins));
    for (const uint8_t value : luma) ++counts[static_cast<size_t>(std::floor(value * (bins / 256.0)))];
    double length = 0;
    for (const double count : counts) length += count * count;
    const auto found = histogram.take();
    ASSERT_EQ(found.size(), counts.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], counts[i] / std::sqrt(length), 1e-7) << bins << " " << i;
    for (const float value : histogram.take()) EXPECT_EQ(value, 0.0F) << "counting starts anew";
  }
}

// Pearson's coefficient, by its definition in long double.
TEST(Correlation, IsPearsons) {
  for (const size_t n : {size_t{2}, size_t{7}, size_t{16}, size_t{256}}) {
    std::mt19937_64 random(n);
    std::vector<float> a(n), b(n);
    for (size_t i = 0; i < n; ++i)
      a[i] = static_cast<float>(random() % 1000) / 999,
      b[i] = static_cast<float>(random() % 1000) / 999 + a[i];
    long double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; ++i) mean_a += a[i], mean_b += b[i];
    mean_a /= static_cast<long double>(n), mean_b /= static_cast<long double>(n);
    for (size_t i = 0; i < n; ++i) {
      ab += (a[i] - mean_a) * (b[i] - mean_b), aa += (a[i] - mean_a) * (a[i] - mean_a);
      bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    EXPECT_NEAR(correlation(a, b), static_cast<double>(ab / std::sqrt(aa * bb)), 1e-12) << n;
    EXPECT_NEAR(correlation(a, a), 1.0, 1e-12);
  }
  EXPECT_EQ(correlation({0.5F, 0.5F, 0.5F, 0.5F}, {1, 0, 0, 0}), 1.0) << "a flat one";
}

}  // namespace
}  // namespace kinora
