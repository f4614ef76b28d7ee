// score/psnr and score/ssim against their formulas. The state of both has one number for each video.
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/score.hpp"

namespace kinora::test {
namespace {

using at::Tensor;
using testing::HasSubstr;

TEST(Psnr, IsTenTimesTheLogarithmOfTheErrorsShare) {
  const Tensor a = at::zeros({3, 3, 2, 4, 4}, at::kDouble);
  Tensor b = a.clone();
  b[0] += 0.2;
  b[1] -= 2;
  const auto psnr = score("psnr");
  psnr->update({{"prediction", a}, {"target", b}});
  const Tensor each = psnr->state();
  EXPECT_NEAR(each[0].item<double>(), 20, 1e-12);
  EXPECT_NEAR(each[1].item<double>(), 0, 1e-12);
  EXPECT_TRUE(std::isinf(each[2].item<double>()));
  EXPECT_TRUE(std::isinf(psnr->compute().at(0).second));
  EXPECT_NEAR(scored("psnr", {{"prediction", a.narrow(0, 0, 2)}, {"target", b.narrow(0, 0, 2)}}), 10, 1e-12);
}

TEST(Psnr, OfEachVideoHasTheMeanOfAll) {
  at::manual_seed(5);
  const auto draw = [] { return at::rand({5, 3, 2, 4, 4}, at::kDouble) * 2 - 1; };
  const Tensor a = draw(), b = draw();
  const core::NamedTensors videos{{"prediction", a}, {"target", b}};
  const auto numbers = each("psnr", videos);
  ASSERT_EQ(numbers.size(), 5U);
  double mean = 0, error = 0;
  for (const double x : numbers) mean += x / 5;
  EXPECT_NEAR(mean, scored("psnr", videos), 1e-12);
  const Tensor one = a[3].contiguous(), other = b[3].contiguous();
  for (int64_t i = 0; i < one.numel(); ++i)
    error += std::pow(one.data_ptr<double>()[i] - other.data_ptr<double>()[i], 2) / 96;
  EXPECT_NEAR(numbers[3], 20 * std::log10(2 / std::sqrt(error)), 1e-10);
}

TEST(Ssim, EqualsTheFormulaInALoop) {
  const Oracle oracle("ssim.safetensors", "");
  const std::vector<int64_t> shape = {2, 3, 2, 16, 21};
  const Tensor a = numbers("ssim.a", shape) / 2, b = a * 0.7 + numbers("ssim.b", shape) / 8;
  const auto each = [](const Tensor& x, const Tensor& y) {
    const auto ssim = score("ssim");
    ssim->update({{"prediction", x}, {"target", y}});
    return ssim->state();
  };
  EXPECT_LT(difference(each(a, b), oracle.exact("ssim")), 1e-10);
  EXPECT_LT(difference(each(a.to(at::kFloat), b.to(at::kFloat)), oracle.exact("ssim")), 1e-5);
  EXPECT_TRUE(at::allclose(each(a, a), at::ones({2}, at::kDouble), 1e-12));
}

TEST(Ssim, OfVideosSmallerThanItsWindowIsNoNumber) {
  const Tensor small = at::zeros({2, 3, 1, 10, 20}), large = at::zeros({1, 3, 1, 11, 20});
  const auto ssim = score("ssim");
  ssim->update({{"prediction", small}, {"target", small}});
  EXPECT_EQ(ssim->state().numel(), 0);
  EXPECT_THAT(refusal([&] { ssim->compute(); }), HasSubstr("score/ssim: no sample has this score"));
  const core::NamedTensors videos{{"prediction", small}, {"target", small}};
  EXPECT_EQ(refusal([&] { test::each("ssim", videos); }), "0 of 2 samples have a number of their own");
  ssim->update({{"prediction", large}, {"target", large}});
  EXPECT_NEAR(ssim->compute().at(0).second, 1, 1e-6);
}

TEST(Psnr, RefusesVideosOfTwoShapesAndStaysAsItWas) {
  const auto psnr = score("psnr");
  const Tensor x = at::zeros({1, 3, 1, 4, 4}), y = at::full({1, 3, 1, 4, 4}, 0.2);
  psnr->update({{"prediction", x}, {"target", y}});
  EXPECT_THAT(refusal([&] {
                psnr->update({{"prediction", x}, {"target", at::zeros({1, 3, 2, 4, 4})}});
              }),
              HasSubstr("score/psnr: psnr of videos [1, 3, 1, 4, 4] and [1, 3, 2, 4, 4]"));
  EXPECT_THAT(refusal([&] {
                psnr->update({{"prediction", x}});
              }),
              HasSubstr("score/psnr: input 'target' is missing"));
  EXPECT_NEAR(psnr->compute().at(0).second, 20, 1e-5);
}

// To the last bit: a mean must not depend on the number of ranks.
TEST(Psnr, OfTwoInstancesIsThatOfOne) {
  at::manual_seed(3);
  const Tensor a = at::rand({7, 3, 1, 4, 4}) * 2 - 1, b = at::rand({7, 3, 1, 4, 4}) * 2 - 1;
  const auto whole = score("psnr"), merged = score("psnr");
  for (int64_t i = 0; i < 7; ++i)
    whole->update({{"prediction", a.narrow(0, i, 1)}, {"target", b.narrow(0, i, 1)}});
  for (const auto& [first, count] : {std::pair{0, 4}, {4, 2}, {6, 1}}) {
    const auto part = score("psnr");
    for (int64_t i = first; i < first + count; ++i)
      part->update({{"prediction", a.narrow(0, i, 1)}, {"target", b.narrow(0, i, 1)}});
    merged->merge(part->state());
  }
  EXPECT_EQ(merged->compute(), whole->compute());
  EXPECT_THAT(refusal([&] { merged->merge(at::zeros({3})); }), HasSubstr("must be float64 [S]"));
}

}  // namespace
}  // namespace kinora::test
