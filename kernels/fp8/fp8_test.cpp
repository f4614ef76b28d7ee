// FP8's numbers, scales and errors against their definitions.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/fp8/cases.hpp"

namespace kinora::fp8 {
namespace {

template <Format kFormat>
void expect_nearest_numbers() {
  using N = Numbers<kFormat>;
  EXPECT_EQ(value_of<kFormat>(1), N::kSmallest);
  EXPECT_EQ(value_of<kFormat>(1u << N::kMantissa), N::kSmallestNormal);
  EXPECT_EQ(value_of<kFormat>(N::kFirstSpecial - 1), N::kLargest);
  for (uint32_t code = 0; code + 1 < N::kFirstSpecial; ++code) {
    const float value = value_of<kFormat>(code), middle = (value + value_of<kFormat>(code + 1)) / 2;
    EXPECT_EQ(code_of<kFormat>(value), code);
    EXPECT_EQ(code_of<kFormat>(-value), code | 0x80);
    EXPECT_EQ(code_of<kFormat>(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(code_of<kFormat>(middle), code + code % 2);
    EXPECT_EQ(code_of<kFormat>(-std::nextafter(middle, 1e9f)), (code + 1) | 0x80);
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float x : {std::nextafter(N::kLargest, kInf), 1e30f, kInf})
    EXPECT_EQ(code_of<kFormat>(-x), (N::kFirstSpecial - 1) | 0x80) << x;
  for (const float x : {1e-45f, 1e-30f, N::kSmallest / 2}) EXPECT_EQ(code_of<kFormat>(x), 0u) << x;
  EXPECT_EQ(code_of<kFormat>(std::numeric_limits<float>::quiet_NaN()), 0x7fu);
  EXPECT_TRUE(std::isnan(value_of<kFormat>(0x7f)));
  EXPECT_TRUE(std::isnan(value_of<kFormat>(0xff)));
}

TEST(Fp8Numbers, E4m3IsTheNearestOfItsNumbers) { expect_nearest_numbers<Format::e4m3>(); }
TEST(Fp8Numbers, E5m2IsTheNearestOfItsNumbers) {
  expect_nearest_numbers<Format::e5m2>();
  EXPECT_EQ(value_of<Format::e5m2>(0xfc), -std::numeric_limits<float>::infinity());
}

TEST(Fp8Scale, PowersFollowTheLargestMagnitude) {
  const auto up = [](float amax) { return scale_of<Format::e4m3>(Scaling::mx, ScaleRule::up, amax); };
  const auto floor = [](float amax) { return scale_of<Format::e4m3>(Scaling::mx, ScaleRule::floor, amax); };
  for (int power = -110; power < 110; ++power) {
    const float largest = std::ldexp(448.0f, power);
    EXPECT_EQ(up(largest).value, std::ldexp(1.0f, power));
    EXPECT_EQ(up(std::nextafter(largest, 0.0f)).value, std::ldexp(1.0f, power));
    EXPECT_EQ(up(std::nextafter(largest, INFINITY)).value, std::ldexp(2.0f, power));
    EXPECT_EQ(floor(std::nextafter(std::ldexp(512.0f, power), 0.0f)).value, std::ldexp(1.0f, power));
    EXPECT_EQ(floor(std::ldexp(512.0f, power)).value, std::ldexp(2.0f, power));
    EXPECT_EQ(up(largest).exponent, static_cast<uint32_t>(power + 127));
    EXPECT_EQ(up(largest).multiply * up(largest).value, 1.0f);
  }
  for (const float amax : {0.0f, 1e-45f, 1e-37f}) EXPECT_EQ(up(amax).exponent, 0u) << amax;
  EXPECT_EQ(e8m0_value(0), 0x1p-127f);
  EXPECT_EQ(e8m0_value(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_value(255)));
}

// A power-of-two scale maps the largest magnitude above half of the largest number, and not beyond that number
// unless OCP's rule cuts it off.
TEST(Fp8Scale, UseTheRangeOfTheFormat) {
  for (float amax = 1e-30f; amax < 1e30f; amax *= 1.37f)
    for (const ScaleRule rule : {ScaleRule::exact, ScaleRule::up, ScaleRule::floor}) {
      const float scaled = amax * scale_of<Format::e5m2>(Scaling::row, rule, amax).multiply;
      const float most = rule == ScaleRule::floor ? 65536.0f : rule == ScaleRule::up ? 57344.0f : 57345.0f;
      const float least = rule == ScaleRule::exact ? 57343.0f : rule == ScaleRule::up ? 28672.0f : 32768.0f;
      EXPECT_TRUE(scaled >= least && scaled <= most) << amax << " " << scaled;
    }
}

std::vector<float> decoded(const Shape& n, const std::vector<float>& x, const Options& o) {
  Quantized q = room_for(n, o);
  const float amax = fp4::find_amax(n, x.data(), false).value;
  EXPECT_EQ(quantize(n, x.data(), o, amax, q.codes.data(), q.scales.data()), 0u);
  std::vector<float> out(x.size());
  dequantize(n, q.codes.data(), q.scales.data(), o, out.data());
  return out;
}

// Every value that is not cut off moves by half a place of its number at most, whatever the matrix's scale.
TEST(Fp8Error, IsHalfAPlace) {
  const Shape n{130, 300};
  for (const Options& o : all_options()) {
    if (o.column_major || o.rule == ScaleRule::floor) continue;
    const float relative = o.format == Format::e4m3 ? 0x1.001p-4f : 0x1.001p-3f,
                smallest = o.format == Format::e4m3 ? 0x1p-10f / 448 : 0x1p-17f / 57344;
    for (const float by : {1e-30f, 1.0f, 1e30f}) {
      auto x = matrix(n, Content::gaussian, 3);
      for (float& v : x) v *= by;
      const auto got = decoded(n, x, o);
      const float most = 2.1f * smallest * fp4::find_amax(n, x.data(), false).value;
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::fabs(got[i] - x[i]), std::max(std::fabs(x[i]) * relative, most))
            << name_of(o) << " " << by;
    }
  }
}

// Rows of 1e-6 between rows of 1e6 need scales of their own.
TEST(Fp8Error, SmallerBlocksKeepSmallRows) {
  const Shape n{4, 256};
  auto x = matrix(n, Content::gaussian, 5);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= i / 256 % 2 ? 1e6f : 1e-6f;
  Options o;
  const auto tensor = decoded(n, x, o);
  EXPECT_EQ(std::count(tensor.begin(), tensor.begin() + 256, 0.0f), 256);
  for (const Scaling scaling : {Scaling::row, Scaling::mx}) {
    o.scaling = scaling;
    const auto rows = decoded(n, x, o);
    EXPECT_LT(std::count(rows.begin(), rows.begin() + 256, 0.0f), 3);
  }
}

TEST(Fp8Quantize, ColumnMajorIsTheTransposedMatrix) {
  const Shape n{70, 150};
  const auto x = matrix(n, Content::gaussian, 6);
  std::vector<float> stored(x.size());
  for (int64_t r = 0; r < n.rows; ++r)
    for (int64_t c = 0; c < n.cols; ++c)
      stored[static_cast<size_t>(c * n.rows + r)] = x[static_cast<size_t>(r * n.cols + c)];
  for (Options o : all_options()) {
    if (!o.column_major) continue;
    Quantized got = room_for(n, o), want = got;
    quantize(n, stored.data(), o, 5, got.codes.data(), got.scales.data());
    o.column_major = false;
    quantize(n, x.data(), o, 5, want.codes.data(), want.scales.data());
    EXPECT_TRUE(same_bits(want, got)) << name_of(o);
  }
}

TEST(Fp8Quantize, CountsAndLimitsWhatIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Shape n{2, 256};
  auto x = matrix(n, Content::gaussian, 9);
  x[3] = kInf, x[7] = -kInf, x[300] = std::numeric_limits<float>::quiet_NaN();
  for (const Options& o : all_options()) {
    if (o.column_major) continue;
    const uint8_t largest = o.format == Format::e4m3 ? 0x7e : 0x7b;
    Quantized q = room_for(n, o);
    EXPECT_EQ(quantize(n, x.data(), o, 4, q.codes.data(), q.scales.data()), 3u) << name_of(o);
    EXPECT_EQ(q.codes[3], largest);
    EXPECT_EQ(q.codes[7], largest | 0x80);
    EXPECT_EQ(q.codes[300], 0x7f);
    auto finite = x;
    finite[3] = finite[7] = finite[300] = 0;
    Quantized other = room_for(n, o);
    EXPECT_EQ(quantize(n, finite.data(), o, 4, other.codes.data(), other.scales.data()), 0u);
    EXPECT_TRUE(same_bits(q.scales, other.scales)) << name_of(o);
  }
}

}  // namespace
}  // namespace kinora::fp8
