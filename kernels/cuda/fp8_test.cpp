// FP8 in three forms: the reference, the processor's kernels and the device's, run thread by thread, give the
// same bits.
#include <limits>

#include <gtest/gtest.h>

#include "kernels/cuda/fp8_on_host.hpp"
#include "kernels/fp8/cases.hpp"

namespace kinora::fp8 {
namespace {

using cuda::fp8_tile::dequantize_on_host;
using cuda::fp8_tile::quantize_on_host;

template <class T>
class Fp8Forms : public testing::Test {};
using Kinds = testing::Types<float, Bfloat16>;
TYPED_TEST_SUITE(Fp8Forms, Kinds);

template <class T>
void expect_same_codes(const Shape& n, const std::vector<T>& x, const Options& o, const std::string& what) {
  const float amax = fp4::find_amax(n, x.data(), false).value;
  Quantized want = room_for(n, o), fast = want, device = want;
  want.non_finite = reference::quantize(n, x.data(), o, amax, want.codes.data(), want.scales.data());
  fast.non_finite = quantize(n, x.data(), o, amax, fast.codes.data(), fast.scales.data());
  device.non_finite = quantize_on_host(n, x.data(), o, amax, device.codes.data(), device.scales.data());
  ASSERT_TRUE(same_bits(want, fast)) << what;
  ASSERT_TRUE(same_bits(want, device)) << what;
}

TYPED_TEST(Fp8Forms, QuantizeAlike) {
  using T = TypeParam;
  for_cases<T>([](const Shape& n, const std::vector<T>& x, const Options& o, const std::string& what) {
    if (!testing::Test::HasFatalFailure()) expect_same_codes(n, x, o, what);
  });
}

// In every place of a block: an infinity and a NaN.
TYPED_TEST(Fp8Forms, TreatNonFiniteValuesAlike) {
  using T = TypeParam;
  const Shape n{130, 140};
  for (const Options& o : all_options())
    for (const float special :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      auto values = matrix(n, Content::gaussian, 3);
      for (size_t i = 7; i < values.size(); i += 1021) values[i] = special;
      expect_same_codes(n, as<T>(values), o, name_of(o));
      if (testing::Test::HasFatalFailure()) return;
    }
}

// Results large enough to be written past the caches.
TYPED_TEST(Fp8Forms, LargeMatricesAreWrittenAlike) {
  using T = TypeParam;
  const Shape n{2100, 4096};
  std::vector<T> x, back(static_cast<size_t>(n.rows * n.cols)), want = back;
  const auto part = as<T>(matrix({1, 4099}, Content::gaussian, 4));
  while (x.size() < back.size()) x.insert(x.end(), part.begin(), part.end());
  Options o;
  o.scaling = Scaling::mx;
  o.rule = ScaleRule::up;
  Quantized q = room_for(n, o), last = q;
  quantize(n, x.data(), o, 0, q.codes.data(), q.scales.data());
  const Shape end{3, 4096};
  const auto skip = static_cast<size_t>((n.rows - end.rows) * n.cols);
  quantize(end, x.data() + skip, o, 0, last.codes.data(), last.scales.data());
  EXPECT_EQ(std::memcmp(q.codes.data() + skip, last.codes.data(), 3 * 4096), 0);
  dequantize(n, q.codes.data(), q.scales.data(), o, back.data());
  reference::dequantize(end, last.codes.data(), last.scales.data(), o, want.data());
  EXPECT_EQ(std::memcmp(back.data() + skip, want.data(), 3 * 4096 * sizeof(T)), 0);
}

// Every code, and any scale; a NaN may be any NaN.
TYPED_TEST(Fp8Forms, DequantizeAlike) {
  using T = TypeParam;
  std::mt19937 random(3);
  for (const Shape& n : kShapes)
    for (const Options& o : all_options()) {
      if (o.column_major || o.rule != ScaleRule::exact) continue;
      Quantized q = room_for(n, o);
      for (auto& byte : q.codes) byte = static_cast<uint8_t>(random());
      for (auto& byte : q.scales) byte = static_cast<uint8_t>(random());
      if (o.scaling != Scaling::mx)
        for (size_t i = 0; i < q.scales.size(); i += 4) {
          const float scale = std::pow(10.0f, static_cast<float>(random() % 70) - 38);
          std::memcpy(&q.scales[i], &scale, 4);
        }
      std::vector<T> want(q.codes.size()), fast = want, device = want;
      reference::dequantize(n, q.codes.data(), q.scales.data(), o, want.data());
      dequantize(n, q.codes.data(), q.scales.data(), o, fast.data());
      dequantize_on_host(n, q.codes.data(), q.scales.data(), o, device.data());
      for (size_t i = 0; i < want.size(); ++i)
        for (const T got : {fast[i], device[i]}) {
          const float a = fp4::to_float(want[i]), b = fp4::to_float(got);
          ASSERT_TRUE(std::isnan(a) ? std::isnan(b) : fp4::bits_of(a) == fp4::bits_of(b))
              << name_of(o) << " " << i;
        }
    }
}

// Addresses that 16 does not divide take the path without packs.
TYPED_TEST(Fp8Forms, AddressesNeedNoAlignment) {
  using T = TypeParam;
  const Shape n{18, 64};
  const auto x = as<T>(matrix({1, 18 * 64 + 1}, Content::gaussian, 5));
  Options o;
  o.scaling = Scaling::row;
  Quantized want = room_for(n, o), device = want;
  device.codes.push_back(0);
  reference::quantize(n, x.data() + 1, o, 4, want.codes.data(), want.scales.data());
  quantize_on_host(n, x.data() + 1, o, 4, device.codes.data() + 1, device.scales.data());
  device.codes.erase(device.codes.begin());
  EXPECT_TRUE(same_bits(want, device));
}

}  // namespace
}  // namespace kinora::fp8
