#include "kinora/random.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace kinora {
namespace {

// kat_vectors of the Random123 distribution, rows "philox4x32 10".
TEST(Philox, GivesThePublishedKnownAnswers) {
  constexpr uint32_t f = 0xFFFFFFFF;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (PhiloxCounter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Random, StreamsOfOtherSeedsAndNamesDiffer) {
  const Random a(1, "noise");
  EXPECT_EQ(a.bits(5, 6), Random(1, "noise").bits(5, 6));
  EXPECT_NE(a.bits(5, 6), Random(2, "noise").bits(5, 6));
  EXPECT_NE(a.bits(5, 6), Random(1, "nois").bits(5, 6));
  EXPECT_NE(a.bits(5, 6), a.bits(6, 5));
  EXPECT_NE(a.bits(uint64_t{1} << 40), a.bits(0));
}

TEST(Random, UniformIsOpenAndEven) {
  const Random r(7, "u");
  std::vector<int> bins(100);
  for (uint64_t i = 0; i < 500000; ++i)
    for (const double u : r.uniform(i)) {
      ASSERT_GT(u, 0);
      ASSERT_LT(u, 1);
      ++bins[static_cast<size_t>(u * 100)];
    }
  double chi2 = 0;
  for (const int n : bins) chi2 += (n - 1e4) * (n - 1e4) / 1e4;
  EXPECT_LT(chi2, 160);  // 99 degrees of freedom: exceeded once in 10,000
}

TEST(Random, NormalHasTheMomentsAndTailsOfANormal) {
  const Random r(7, "n");
  const int n = 1'000'000;
  double sum = 0, square = 0, fourth = 0, cross = 0, beyond3 = 0;
  for (uint64_t i = 0; i < n / 2; ++i) {
    const auto x = r.normal(i, 3);
    cross += x[0] * x[1];
    for (const double v : x) sum += v, square += v * v, fourth += v * v * v * v, beyond3 += std::abs(v) > 3;
  }
  EXPECT_NEAR(sum / n, 0, 0.004);
  EXPECT_NEAR(square / n, 1, 0.006);
  EXPECT_NEAR(fourth / n, 3, 0.04);
  EXPECT_NEAR(cross / (n / 2), 0, 0.006);
  EXPECT_NEAR(beyond3 / n, 0.0027, 0.0003);
}

}  // namespace
}  // namespace kinora
