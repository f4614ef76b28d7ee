#include "kernels/cpu/tap_product.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "kernels/cpu/tap_product_table.hpp"

namespace kinora {
namespace {

struct TapCase {
  TapShape shape;
  int64_t rows, out_stride;
  bool bias, relu;
};

// Rows below, at and above a whole tile; depths and numbers of taps that divide nothing.
TEST(TapProduct, EqualsPlainLoops) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto numbers = [&](int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = normal(random);
    return out;
  };
  for (const TapCase& c :
       {TapCase{{1, 7, 16}, 1, 16, true, false}, TapCase{{3, 5, 32}, 5, 40, false, true},
        TapCase{{9, 3, 48}, 14, 48, true, true}, TapCase{{2, 16, 16}, 29, 20, false, false}}) {
    const int64_t stride = c.shape.depth + 2, apart = 3 * stride;
    const auto in = numbers((c.rows + 3 * c.shape.taps) * stride),
               matrix = numbers(c.shape.outputs * c.shape.taps * c.shape.depth),
               bias = numbers(c.shape.outputs);
    std::vector<const float*> taps;
    for (int64_t t = 0; t < c.shape.taps; ++t) taps.push_back(in.data() + t * apart);
    const auto packed = pack_taps(c.shape, matrix.data());
    std::vector<float> out(static_cast<size_t>(c.rows * c.out_stride), 99.0F);
    tap_product(c.shape, {taps.data(), c.rows, stride}, packed.data(), c.bias ? bias.data() : nullptr, c.relu,
                out.data(), c.out_stride);
    for (int64_t i = 0; i < c.rows; ++i)
      for (int64_t n = 0; n < c.out_stride; ++n) {
        double sum = n < c.shape.outputs && c.bias ? static_cast<double>(bias[static_cast<size_t>(n)]) : 0;
        for (int64_t t = 0; n < c.shape.outputs && t < c.shape.taps; ++t)
          for (int64_t k = 0; k < c.shape.depth; ++k)
            sum +=
                static_cast<double>(in[static_cast<size_t>(t * apart + i * stride + k)]) *
                static_cast<double>(matrix[static_cast<size_t>((n * c.shape.taps + t) * c.shape.depth + k)]);
        const double expected = n >= c.shape.outputs ? 99 : c.relu ? std::max(sum, 0.0) : sum;
        EXPECT_NEAR(static_cast<double>(out[static_cast<size_t>(i * c.out_stride + n)]), expected, 1e-4)
            << i << " " << n << " of " << c.rows << " rows";
      }
    for (const auto other : {&tap_product_reference, tap_product_detail::avx2_tap_product()}) {
      if (!other) continue;
      std::vector<float> again(out.size(), 99.0F);
      other(c.shape, {taps.data(), c.rows, stride}, packed.data(), c.bias ? bias.data() : nullptr, c.relu,
            again.data(), c.out_stride);
      for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], again[i], 1e-4);
    }
  }
}

}  // namespace
}  // namespace kinora
