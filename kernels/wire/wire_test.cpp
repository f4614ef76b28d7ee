// Numbers in FP8 and NVFP4 between ranks: error, bytes, and the same bits from the kernels and from libtorch's
// operations.
#include "kernels/wire/wire.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::wire {
namespace {

using at::Tensor;
using testing::HasSubstr;

constexpr Format kQuantised[] = {Format::fp8, Format::nvfp4};

// Rows of several magnitudes, a block of zeros, negative zeros.
Tensor numbers(int64_t parts, int64_t rows, int64_t cols) {
  at::manual_seed(19);
  const Tensor x = at::randn({parts, rows, cols}) * at::pow(10.0, at::randint(-4, 2, {parts, rows, 1}));
  x.narrow(1, 0, 1).narrow(2, 0, std::min<int64_t>(cols, 16)).zero_();
  x.select(1, rows - 1).select(1, cols - 1).fill_(-0.0F);
  return x;
}

Tensor there_and_back(const Tensor& x, Format f) {
  return unpacked(packed(x, f, "x"), x.size(1), x.size(2), f, at::kDouble);
}

// The largest of each block of a row, for each number.
Tensor largest_of_blocks(const Tensor& x, int64_t block) {
  std::vector<Tensor> out;
  for (const auto& b : x.abs().split(block, 2)) out.push_back(b.amax(2, true).expand_as(b));
  return at::cat(out, 2).to(at::kDouble);
}

// fp8: half a step of three bits of mantissa, or half the smallest number of the block. nvfp4: half the largest
// step, 1 of 6, where the scale was rounded, by up to 1/16.
TEST(Wire, ErrsByLessThanTheFormatsBound) {
  for (const int64_t cols : {1, 15, 16, 40, 128, 300}) {
    const Tensor x = numbers(2, 5, cols), exact = x.to(at::kDouble);
    const Tensor fp8 = (there_and_back(x, Format::fp8) - exact).abs(),
                 nvfp4 = (there_and_back(x, Format::nvfp4) - exact).abs();
    const Tensor small = largest_of_blocks(x, 128) * (0x1p-10 / 448);
    EXPECT_TRUE((fp8 <= at::max(exact.abs() * (0x1p-4 * 1.000001), small * 1.000001)).all().item<bool>())
        << cols;
    // A block whose exact scale is below the smallest E4M3 scale of its part loses the difference.
    const Tensor part = exact.abs().amax({1, 2}, true) / (448 * 6) * 0x1p-10 * 6;
    const Tensor bound = largest_of_blocks(x, 16) * (1.0625 / 6) + part;
    EXPECT_TRUE((nvfp4 <= bound * 1.000001).all().item<bool>()) << cols;
  }
}

TEST(Wire, HasTheRelativeErrorThatIsPublished) {
  at::manual_seed(3);
  const Tensor x = at::randn({1, 64, 512});
  const auto error = [&](Format f) { return ((there_and_back(x, f) - x).norm() / x.norm()).item<double>(); };
  EXPECT_NEAR(error(Format::fp8), 0.026, 0.002);
  EXPECT_NEAR(error(Format::nvfp4), 0.0956, 0.002);  // Four Over Six, arXiv 2512.02010: 9.56 % by static_6
}

TEST(Wire, TakesTheBytesOfItsFormula) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{3, 300}, {5, 16}, {1, 7}}) {
    const Tensor x = numbers(2, rows, cols);
    const auto up = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
    EXPECT_EQ(packed(x, Format::fp8, "x").size(1), rows * cols + 4 * rows * up(cols, 128));
    EXPECT_EQ(packed(x, Format::nvfp4, "x").size(1), rows * up(cols, 2) + rows * up(cols, 16) + 4);
  }
}

// A part is what one rank gets: its bytes do not depend on the others.
TEST(Wire, QuantisesEachPartByItself) {
  const Tensor x = numbers(3, 4, 40);
  for (const Format f : kQuantised) {
    const Tensor all = packed(x, f, "x");
    for (int64_t p = 0; p < 3; ++p)
      EXPECT_TRUE(at::equal(all.narrow(0, p, 1), packed(x.narrow(0, p, 1), f, "x"))) << p;
  }
}

// An independent form, which GPUs use: bytes and decoded numbers to the bit, signs of zeros too.
TEST(Wire, EqualsItsFormInLibtorchsOperations) {
  for (const int64_t cols : {1, 15, 16, 40, 129}) {
    Tensor tiny = numbers(2, 3, cols) * 1e-36;
    for (const Tensor& x :
         {numbers(2, 5, cols), numbers(1, 1, cols).to(at::kBFloat16), tiny, at::zeros({1, 2, cols})})
      for (const Format f : kQuantised) {
        const Tensor bytes = packed(x, f, "x");
        EXPECT_TRUE(at::equal(bytes, by_ops::packed(x, f))) << cols << ' ' << static_cast<int>(f);
        const Tensor a = unpacked(bytes, x.size(1), cols, f, at::kFloat),
                     b = by_ops::unpacked(bytes, x.size(1), cols, f, at::kFloat);
        EXPECT_TRUE(at::equal(a.view(at::kInt), b.view(at::kInt))) << cols << ' ' << static_cast<int>(f);
      }
  }
}

TEST(Wire, KeepsTheDtypeAndRoundsOnce) {
  const Tensor x = numbers(1, 3, 48).to(at::kBFloat16);
  for (const Format f : kQuantised) {
    const Tensor bytes = packed(x, f, "x");
    const Tensor narrow = unpacked(bytes, 3, 48, f, at::kBFloat16);
    EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(narrow, unpacked(bytes, 3, 48, f, at::kFloat).to(at::kBFloat16)));
  }
}

TEST(Wire, RefusesInfinitiesAndNaN) {
  for (const Format f : kQuantised) {
    Tensor x = numbers(2, 3, 20);
    x.select(0, 0).select(0, 1).select(0, 3).fill_(INFINITY);
    x.select(0, 1).select(0, 2).select(0, 4).fill_(NAN);
    EXPECT_THAT(test::refusal([&] { packed(x, f, "the values"); }),
                HasSubstr("the values: 2 of 120 numbers to send are infinite or NaN, which " +
                          format_names()[static_cast<size_t>(f)]));
    // Without the check, as on a GPU, the numbers of the same scale arrive as NaN.
    const Tensor back = by_ops::unpacked(by_ops::packed(x, f), 3, 20, f, at::kFloat);
    EXPECT_TRUE(back[0][1][3].isfinite().logical_not().item<bool>());
    EXPECT_TRUE(back[1][2][4].isnan().item<bool>());
  }
}

TEST(Wire, TellsBytesAndError) {
  at::manual_seed(3);
  const Tensor x = at::randn({1, 4, 128});
  Meter meter;
  EXPECT_EQ(meter.told(), "");
  const Tensor bytes = packed(x, Format::fp8, "x");
  meter.add(x, bytes, x * 1.5);
  EXPECT_EQ(meter.told(), "1.03 bytes a number instead of 4, relative error 50 %");
}

}  // namespace
}  // namespace kinora::wire
