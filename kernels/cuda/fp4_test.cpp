// NVFP4 in three forms: the reference, the processor's kernels and the device's, run thread by thread, give
// the same bits.
#include <limits>

#include <gtest/gtest.h>

#include "kernels/cuda/fp4_on_host.hpp"
#include "kernels/fp4/cases.hpp"

namespace kinora::fp4 {
namespace {

using cuda::fp4_tile::amax_on_host;
using cuda::fp4_tile::dequantize_on_host;
using cuda::fp4_tile::quantize_on_host;

template <class T>
class Fp4Forms : public testing::Test {};
using Numbers = testing::Types<float, Bfloat16>;
TYPED_TEST_SUITE(Fp4Forms, Numbers);

bool operator==(const Amax& a, const Amax& b) {
  return bits_of(a.value) == bits_of(b.value) && a.non_finite == b.non_finite;
}

TYPED_TEST(Fp4Forms, QuantizeAlike) {
  using T = TypeParam;
  for_cases<T>([](const Shape& n, const std::vector<T>& x, const Options& o, const std::string& what) {
    if (testing::Test::HasFatalFailure()) return;
    const Amax amax = reference::find_amax(n, x.data(), o.hadamard, o.column_major);
    ASSERT_EQ(amax.non_finite, 0u) << what;
    ASSERT_TRUE(amax == find_amax(n, x.data(), o.hadamard, o.column_major)) << what;
    ASSERT_TRUE(amax == amax_on_host(n, x.data(), o.hadamard, o.column_major, 3)) << what;
    Quantized want = room_for(n, o.swizzled), fast = want, device = want;
    want.global = reference::quantize(n, x.data(), o, amax.value, want.codes.data(), want.scales.data());
    fast.global = quantize(n, x.data(), o, amax.value, fast.codes.data(), fast.scales.data());
    device.global = quantize_on_host(n, x.data(), o, amax.value, device.codes.data(), device.scales.data());
    ASSERT_TRUE(same_bits(want, fast)) << what;
    ASSERT_TRUE(same_bits(want, device)) << what;
  });
}

TYPED_TEST(Fp4Forms, DequantizeAlike) {
  using T = TypeParam;
  std::mt19937 random(3);
  for (const Shape& n : kShapes)
    for (const bool swizzled : {false, true})
      for (const float global : {1.0f, 0.37f, 3e38f, 2e-36f}) {
        Quantized q = room_for(n, swizzled);
        for (auto& byte : q.codes) byte = static_cast<uint8_t>(random());
        for (auto& byte : q.scales) byte = static_cast<uint8_t>(random() % 0x7f);
        std::vector<T> want(static_cast<size_t>(n.rows * n.cols)), fast = want, device = want;
        reference::dequantize(n, q.codes.data(), q.scales.data(), swizzled, global, want.data());
        dequantize(n, q.codes.data(), q.scales.data(), swizzled, global, fast.data());
        dequantize_on_host(n, q.codes.data(), q.scales.data(), swizzled, global, device.data());
        ASSERT_TRUE(same_bits(want, fast)) << n.rows << " " << n.cols << " " << global;
        ASSERT_TRUE(same_bits(want, device)) << n.rows << " " << n.cols << " " << global;
      }
}

// Large matrices give a thread block several tiles, which may end in the middle of a row of tiles.
TYPED_TEST(Fp4Forms, ThreadBlocksMayHaveSeveralTiles) {
  using T = TypeParam;
  const Shape n{34, 530};  // 3 x 3 tiles
  const auto x = as<T>(matrix(n, Content::gaussian, 12));
  for (const Options& o : all_options()) {
    Quantized want = room_for(n, o.swizzled), device = want;
    want.global = quantize(n, x.data(), o, 5, want.codes.data(), want.scales.data());
    device.global = quantize_on_host(n, x.data(), o, 5, device.codes.data(), device.scales.data(), 4);
    ASSERT_TRUE(same_bits(want, device)) << name_of(o);
  }
}

// Addresses that 16 does not divide take the path without packs.
TYPED_TEST(Fp4Forms, AddressesNeedNoAlignment) {
  using T = TypeParam;
  const Shape n{18, 64}, longer{1, 18 * 64 + 1};
  const auto x = as<T>(matrix(longer, Content::gaussian, 5));
  Options o;
  Quantized want = room_for(n, false), device = want;
  device.codes.push_back(0);
  want.global = reference::quantize(n, x.data() + 1, o, 4, want.codes.data(), want.scales.data());
  device.global = quantize_on_host(n, x.data() + 1, o, 4, device.codes.data() + 1, device.scales.data());
  device.codes.erase(device.codes.begin());
  EXPECT_TRUE(same_bits(want, device));
}

TYPED_TEST(Fp4Forms, CountNonFiniteValuesAlike) {
  using T = TypeParam;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Shape n{20, 100};
  auto values = matrix(n, Content::gaussian, 9);
  values[3] = kInf, values[7] = -kInf, values[900] = std::numeric_limits<float>::quiet_NaN(),
  values[1999] = kInf;
  for (int i = 160; i < 176; ++i) values[static_cast<size_t>(i)] = 3e38f;
  const auto x = as<T>(values);
  for (const bool hadamard : {false, true}) {
    const Amax want = reference::find_amax(n, x.data(), hadamard);
    if (!hadamard) {
      EXPECT_EQ(want.non_finite, 4u);
    }
    EXPECT_TRUE(std::isfinite(want.value));
    EXPECT_TRUE(want == find_amax(n, x.data(), hadamard));
    EXPECT_TRUE(want == amax_on_host(n, x.data(), hadamard, false, 2));
  }
}

// Any part of a matrix that starts at a block is rounded as the whole matrix is: ranks share one noise.
TYPED_TEST(Fp4Forms, PartsRoundAsTheWhole) {
  using T = TypeParam;
  const Shape n{24, 96}, part{7, 32};
  const auto x = as<T>(matrix(n, Content::gaussian, 11));
  Options o;
  o.stochastic = true;
  o.noise.seed = 99;
  Quantized whole = room_for(n, false), cut = room_for(part, false);
  quantize(n, x.data(), o, 5, whole.codes.data(), whole.scales.data());
  std::vector<T> x_part;
  for (int64_t r = 0; r < part.rows; ++r)
    x_part.insert(x_part.end(), x.begin() + (r + 9) * n.cols + 48, x.begin() + (r + 9) * n.cols + 80);
  o.noise.first_row = 9, o.noise.first_col = 48;
  quantize(part, x_part.data(), o, 5, cut.codes.data(), cut.scales.data());
  for (int64_t r = 0; r < part.rows; ++r)
    for (int64_t i = 0; i < 16; ++i)
      EXPECT_EQ(cut.codes[r * 16 + i], whole.codes[(r + 9) * 48 + 24 + i]) << r << " " << i;
}

}  // namespace
}  // namespace kinora::fp4
