// NVFP4's numbers, noise, transform and errors against their definitions.
#include <bit>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "kernels/fp4/block.hpp"
#include "kernels/fp4/cases.hpp"
#include "kernels/fp4/hadamard.hpp"

namespace kinora::fp4 {
namespace {

TEST(E2m1, RoundsToNearestAndTiesToEven) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint32_t code = 0; code < 16; ++code)
    EXPECT_EQ(e2m1_value(code), code & 8 ? -values[code & 7] : values[code]) << code;
  EXPECT_TRUE(std::signbit(e2m1_value(8)));
  for (uint32_t code = 0; code < 7; ++code) {
    const float middle = (values[code] + values[code + 1]) / 2;
    EXPECT_EQ(nearest_e2m1(values[code]), code);
    EXPECT_EQ(nearest_e2m1(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(nearest_e2m1(middle), code + code % 2);
    EXPECT_EQ(nearest_e2m1(-std::nextafter(middle, 7.0f)), code + 1);
  }
  for (const float x : {6.0f, 7.0f, 1e30f}) EXPECT_EQ(nearest_e2m1(x), 7u);
  for (const float x : {0.0f, 1e-45f, -1e-38f}) EXPECT_EQ(nearest_e2m1(x), 0u);
}

TEST(E2m1, StochasticRoundingIsUnbiasedOverItsNoise) {
  const auto stochastic_e2m1 = [](float x, uint32_t noise) {
    return (offset_stochastic_e2m1(x, noise) >> 16) - kStochasticOffset;
  };
  for (float x = 0; x <= 6; x += 0.0371f) {
    double sum = 0;
    for (uint32_t noise = 0; noise < 65536; ++noise) sum += e2m1_value(stochastic_e2m1(x, noise));
    EXPECT_NEAR(sum / 65536, x, 2.0 / 65536) << x;  // half a step of 2^-16 of the widest interval
  }
  for (const float x : {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 9.0f})
    for (const uint32_t noise : {0u, 1u, 65535u}) EXPECT_EQ(stochastic_e2m1(x, noise), nearest_e2m1(x)) << x;
}

TEST(E4m3, IsTheNearestOfItsNumbers) {
  EXPECT_EQ(e4m3_value(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_value(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3_value(0x38), 1.0f);
  EXPECT_EQ(e4m3_value(0x7e), 448.0f);
  EXPECT_EQ(e4m3_value(0xb8), -1.0f);
  EXPECT_TRUE(std::isnan(e4m3_value(0x7f)));
  for (uint32_t code = 0; code < 0x7e; ++code) {
    const float value = e4m3_value(code), next = e4m3_value(code + 1), middle = (value + next) / 2;
    EXPECT_EQ(e4m3_code(value), code);
    EXPECT_EQ(e4m3_code(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(e4m3_code(middle), code + code % 2);
    EXPECT_EQ(e4m3_code(std::nextafter(middle, 500.0f)), code + 1);
  }
  for (const float x : {449.0f, 480.0f, 1e38f}) EXPECT_EQ(e4m3_code(x), 0x7eu);
}

TEST(Philox, GivesItsPublishedWords) {
  const auto words = [](uint64_t key, Words counter) {
    const Words out = philox(key, counter);
    return std::vector<uint32_t>(out.of, out.of + 4);
  };
  using V = std::vector<uint32_t>;
  EXPECT_EQ(words(0, {{0, 0, 0, 0}}), (V{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(0x299f31d0a4093822ull, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}),
            (V{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

void inverse_random_hadamard(Values& v) {
  hadamard(v);
  flip_signs(v);
}

TEST(Hadamard, IsSylvestersMatrixWithSignsAndItsOwnInverse) {
  const int signs[] = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
  for (int i = 0; i < 16; ++i) {
    Values v = {};
    v[i] = 4;
    random_hadamard(v);
    for (int j = 0; j < 16; ++j)
      EXPECT_EQ(v[j], signs[i] * (std::popcount(static_cast<unsigned>(i & j)) % 2 ? -1 : 1)) << i << " " << j;
    inverse_random_hadamard(v);
    for (int j = 0; j < 16; ++j) EXPECT_EQ(v[j], i == j ? 4 : 0);
  }
}

TEST(Layout, SwizzledScalesFillTilesOf128By4) {
  EXPECT_EQ(scale_place(6, true, 0, 1), 1);
  EXPECT_EQ(scale_place(6, true, 1, 0), 16);
  EXPECT_EQ(scale_place(6, true, 32, 0), 4);
  EXPECT_EQ(scale_place(6, true, 0, 4), 512);
  EXPECT_EQ(scale_place(6, true, 128, 0), 1024);
  const Shape n{200, 90};
  EXPECT_EQ(scale_bytes(n, true), 256 * 8);
  std::set<int64_t> places;
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t block = 0; block < blocks_a_row(n); ++block)
      places.insert(scale_place(blocks_a_row(n), true, row, block));
  EXPECT_EQ(std::ssize(places), n.rows * blocks_a_row(n)) << "no two scales share a place";
  EXPECT_LT(*places.rbegin(), scale_bytes(n, true));
}

struct Decoded {
  std::vector<float> x;
  double error;  // sum of squares, over the sum of squares of the input
};

Decoded decoded(const Shape& n, const std::vector<float>& x, const Options& o) {
  Quantized q = room_for(n, o.swizzled);
  const Amax amax = find_amax(n, x.data(), o.hadamard);
  q.global = quantize(n, x.data(), o, amax.value, q.codes.data(), q.scales.data());
  Decoded out{std::vector<float>(x.size()), 0};
  dequantize(n, q.codes.data(), q.scales.data(), o.swizzled, q.global, out.x.data());
  double errors = 0, squares = 0;
  for (size_t i = 0; i < x.size(); i += 16) {
    Values v;
    std::copy_n(out.x.begin() + static_cast<std::ptrdiff_t>(i), 16, v);
    if (o.hadamard) inverse_random_hadamard(v);
    for (size_t j = 0; j < 16; ++j) {
      errors += std::pow(v[j] - x[i + j], 2.0);
      squares += std::pow(x[i + j], 2.0);
    }
  }
  out.error = errors / squares;
  return out;
}

TEST(Fp4Error, OfGaussianValuesIsAsDocumented) {
  const Shape n{64, 512};
  for (const Options& o : all_options()) {
    if (o.stochastic || o.column_major) continue;
    const double decibels = -10 * std::log10(decoded(n, matrix(n, Content::gaussian, 1), o).error);
    EXPECT_GT(decibels, o.square ? 17.5 : 20) << name_of(o);
    EXPECT_LT(decibels, o.square ? 19.5 : 21.6) << name_of(o);
  }
}

TEST(Fp4Error, FourOverSixLowersIt) {
  const Shape n{256, 512};
  const auto x = matrix(n, Content::gaussian, 2);
  Options six, adaptive;
  six.rule = ScaleRule::static_6;
  for (const ScaleRule rule : {ScaleRule::mse, ScaleRule::mae, ScaleRule::abs_max}) {
    adaptive.rule = rule;
    EXPECT_LT(decoded(n, x, adaptive).error, 0.95 * decoded(n, x, six).error) << name_of(adaptive);
  }
  adaptive.rule = ScaleRule::mse;
  EXPECT_NEAR(std::sqrt(decoded(n, x, six).error), 0.0956, 0.001);  // published with the method
  EXPECT_NEAR(std::sqrt(decoded(n, x, adaptive).error), 0.0871, 0.001);
}

// The mean over seeds approaches the matrix as 1 / sqrt(seeds), where rounding to nearest would stay. No
// value is limited: with four as the largest code each has room above it.
TEST(Fp4Error, OfTheMeanOfStochasticRoundingsVanishes) {
  const Shape n{16, 256};
  const auto x = matrix(n, Content::gaussian, 4);
  Options o;
  o.rule = ScaleRule::static_4;
  const double nearest = decoded(n, x, o).error;
  o.stochastic = true;
  std::vector<double> mean(x.size());
  constexpr int kSeeds = 400;
  for (int seed = 0; seed < kSeeds; ++seed) {
    o.noise.seed = static_cast<uint64_t>(seed);
    const auto once = decoded(n, x, o).x;
    for (size_t i = 0; i < x.size(); ++i) mean[i] += once[i] / static_cast<double>(kSeeds);
  }
  double errors = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    errors += std::pow(mean[i] - x[i], 2);
    squares += std::pow(x[i], 2.0);
  }
  EXPECT_LT(errors / squares, nearest / 50);
}

// A block's largest value is limited where its scale was rounded down: docs/precision.md has these figures.
TEST(Fp4Error, OfTheMeanOfStochasticRoundingsOfLargestValues) {
  const Shape n{64, 512};
  const auto x = matrix(n, Content::gaussian, 8);
  for (const auto& [rule, least] : {std::pair{ScaleRule::none, -0.0125},
                                    {ScaleRule::static_6, -0.0125},
                                    {ScaleRule::mse, -0.0075},
                                    {ScaleRule::static_4, -0.003}}) {
    Options o;
    o.rule = rule;
    o.stochastic = true;
    std::vector<double> mean(x.size());
    constexpr int kSeeds = 60;
    for (int seed = 0; seed < kSeeds; ++seed) {
      o.noise.seed = static_cast<uint64_t>(seed);
      const auto once = decoded(n, x, o).x;
      for (size_t i = 0; i < x.size(); ++i) mean[i] += once[i] / static_cast<double>(kSeeds);
    }
    double off = 0, worst = 0;
    for (size_t first = 0; first < x.size(); first += kBlock) {
      size_t at = first;
      for (size_t i = first; i < first + kBlock; ++i)
        if (std::abs(x[i]) > std::abs(x[at])) at = i;
      off += (mean[at] / x[at] - 1) * kBlock / static_cast<double>(x.size());
      worst = std::min(worst, mean[at] / x[at] - 1);
    }
    EXPECT_GT(off, least) << name_of(o);
    EXPECT_LT(off, 0.003) << name_of(o);
    EXPECT_GT(worst, -0.08) << name_of(o);
  }
}

// Every option, noise too.
TEST(Fp4Columns, HaveTheCodesOfTheTransposedMatrix) {
  const Shape n{35, 90};
  const auto x = matrix(n, Content::gaussian, 7);
  std::vector<float> stored(x.size());
  for (int64_t r = 0; r < n.rows; ++r)
    for (int64_t c = 0; c < n.cols; ++c)
      stored[static_cast<size_t>(c * n.rows + r)] = x[static_cast<size_t>(r * n.cols + c)];
  for (Options o : all_options()) {
    if (!o.column_major) continue;
    const float amax = find_amax(n, stored.data(), o.hadamard, true).value;
    EXPECT_EQ(amax, find_amax(n, x.data(), o.hadamard).value);
    Quantized got = room_for(n, o.swizzled), want = got;
    got.global = quantize(n, stored.data(), o, amax, got.codes.data(), got.scales.data());
    o.column_major = false;
    want.global = quantize(n, x.data(), o, amax, want.codes.data(), want.scales.data());
    EXPECT_TRUE(same_bits(want, got)) << name_of(o);
  }
}

TEST(Fp4Error, ScaleOfTheMatrixDoesNotMatter) {
  const Shape n{8, 64};
  const auto x = matrix(n, Content::gaussian, 6);
  for (const float by : {1e-38f, 1e-37f, 1e-30f, 1.0f, 1e30f, 5e37f}) {
    auto scaled = x;
    for (float& v : scaled) v *= by;
    EXPECT_LT(decoded(n, scaled, Options()).error, 0.0105) << by;
  }
}

}  // namespace
}  // namespace kinora::fp4
