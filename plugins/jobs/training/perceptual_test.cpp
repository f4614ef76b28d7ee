#include "plugins/jobs/training/perceptual.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

TEST(Psnr, IsTenTimesTheLogarithmOfTheErrorsShare) {
  const Tensor a = at::zeros({3, 3, 2, 4, 4}, at::kDouble);
  Tensor b = a.clone();
  b[0] += 0.2;
  b[1] -= 2;
  const Tensor p = psnr(a, b);
  EXPECT_NEAR(p[0].item<double>(), 20, 1e-12);
  EXPECT_NEAR(p[1].item<double>(), 0, 1e-12);
  EXPECT_TRUE(std::isinf(p[2].item<double>()));
}

TEST(Ssim, EqualsTheFormulaInALoop) {
  const test::Oracle oracle("ssim.safetensors", "");
  const std::vector<int64_t> shape = {2, 3, 2, 16, 21};
  const Tensor a = test::numbers("ssim.a", shape) / 2, b = a * 0.7 + test::numbers("ssim.b", shape) / 8;
  EXPECT_LT(test::difference(ssim(a, b), oracle.exact("ssim")), 1e-10);
  EXPECT_LT(test::difference(ssim(a.to(at::kFloat), b.to(at::kFloat)), oracle.exact("ssim")), 1e-5);
  EXPECT_TRUE(at::allclose(ssim(a, a), at::ones({2}, at::kDouble), 1e-12));
  EXPECT_THROW(ssim(a.narrow(3, 0, 10), b.narrow(3, 0, 10)), Error);
}

TEST(FeatureStatistics, OfPiecesAreThoseOfTheWhole) {
  at::manual_seed(4);
  const Tensor x = at::randn({100, 5}, at::kDouble) * 3 + 1000;
  FeatureStatistics whole, pieces, rest;
  whole.add(x);
  pieces.add(x.narrow(0, 0, 1));
  pieces.add(x.narrow(0, 1, 40).to(at::kDouble));
  rest.add(x.narrow(0, 41, 59));
  pieces.merge(rest);
  const Tensor centred = x - x.mean(0);
  const Tensor covariance = at::matmul(centred.t(), centred) / 99;
  EXPECT_EQ(pieces.count(), 100);
  EXPECT_LT(test::difference(whole.covariance(), covariance), 1e-12);
  EXPECT_LT(test::difference(pieces.covariance(), covariance), 1e-11);
  EXPECT_LT(test::difference(pieces.mean(), x.mean(0)), 1e-14);
  EXPECT_NEAR(frechet_distance(whole, pieces), 0, 1e-9);
}

// For matrices that commute the trace is sum (sqrt(a) - sqrt(b))^2 over the eigenvalues of their shared
// eigenvectors.
TEST(FrechetDistance, EqualsTheClosedForm) {
  at::manual_seed(5);
  const Tensor q = std::get<0>(at::linalg_qr(at::randn({6, 6}, at::kDouble)));
  const Tensor a = at::rand({6}, at::kDouble) * 4, b = at::rand({6}, at::kDouble) * 4;
  const auto matrix = [&](const Tensor& values) { return at::matmul(q * values, q.t()); };
  const Tensor m1 = at::randn({6}, at::kDouble), m2 = at::randn({6}, at::kDouble);
  const double want = ((m1 - m2).square().sum() + (a.sqrt() - b.sqrt()).square().sum()).item<double>();
  EXPECT_NEAR(frechet_distance(m1, matrix(a), m2, matrix(b)), want, 1e-10);
  // In a direction without variance in one of them, the root of a rounding error remains.
  a[5] = 0;
  const double flat = ((m1 - m2).square().sum() + (a.sqrt() - b.sqrt()).square().sum()).item<double>();
  EXPECT_NEAR(frechet_distance(m1, matrix(a), m2, matrix(b)), flat, 1e-6);
  // One dimension: (m1 - m2)^2 + (s1 - s2)^2.
  const auto one = [](double v) { return at::full({1}, v, at::kDouble); };
  EXPECT_NEAR(frechet_distance(one(1), one(4).view({1, 1}), one(3), one(9).view({1, 1})), 4 + 1, 1e-12);
  // Two that do not commute: tr (S1 S2)^(1/2) of 2 x 2 is sqrt(tr S1 S2 + 2 sqrt(det S1 S2)).
  const Tensor s1 = at::tensor({2.0, 0.5, 0.5, 1.0}, at::kDouble).view({2, 2}),
               s2 = at::tensor({1.0, -0.3, -0.3, 3.0}, at::kDouble).view({2, 2}),
               zero = at::zeros({2}, at::kDouble);
  const double product = at::matmul(s1, s2).trace().item<double>(), det = (2 * 1 - 0.25) * (1 * 3 - 0.09);
  EXPECT_NEAR(frechet_distance(zero, s1, zero, s2), 3 + 4 - 2 * std::sqrt(product + 2 * std::sqrt(det)),
              1e-12);
}

}  // namespace
}  // namespace kinora::core
