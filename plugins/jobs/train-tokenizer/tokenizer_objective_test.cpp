#include "plugins/jobs/train-tokenizer/tokenizer_objective.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

Tensor doubles(const std::vector<double>& v) { return at::tensor(v, at::kDouble); }
double item(const Tensor& t) { return t.item<double>(); }

TEST(Hinge, StopsAtTheMarginAndPushesBothWays) {
  Tensor real = doubles({2, 1, 0, -1}).requires_grad_(), fake = doubles({-3, -1, 0.5, 1}).requires_grad_();
  const Tensor loss = hinge_critic(real, fake);
  EXPECT_DOUBLE_EQ(item(loss), ((0 + 0 + 1 + 2) / 4.0 + (0 + 0 + 1.5 + 2) / 4.0) / 2);
  loss.backward();
  EXPECT_TRUE(at::equal(real.grad(), doubles({0, 0, -0.125, -0.125})));
  EXPECT_TRUE(at::equal(fake.grad(), doubles({0, 0, 0.125, 0.125})));
  Tensor logits = doubles({3, -1}).requires_grad_();
  const Tensor of_generator = hinge_generator(logits);
  EXPECT_DOUBLE_EQ(item(of_generator), -1);
  of_generator.backward();
  EXPECT_TRUE(at::equal(logits.grad(), doubles({-0.5, -0.5})));
}

TEST(AdaptiveWeight, IsTheRatioOfTheGradientsNorms) {
  EXPECT_NEAR(item(adaptive_weight(doubles({3, 4}), doubles({0, 2}))), 5 / 2.0001, 1e-15);
  EXPECT_DOUBLE_EQ(item(adaptive_weight(doubles({3, 4}), doubles({0, 0}))), 1e4);  // 50000 without the bound
  EXPECT_DOUBLE_EQ(item(adaptive_weight(doubles({3, 4}), doubles({0, 0}), 10)), 10);
  Tensor g = doubles({1, 1}).requires_grad_();
  EXPECT_FALSE(adaptive_weight(g, g).requires_grad());
}

TEST(KlToStandardNormal, EqualsTheClosedForm) {
  // Two samples of two channels at one position: means, then log variances.
  const Tensor moments = doubles({0, 0, 0, 0, 1, -2, std::log(4.0), std::log(0.25)}).view({2, 4, 1});
  const Tensor kl = kl_to_standard_normal(moments);
  EXPECT_DOUBLE_EQ(item(kl[0]), 0);
  EXPECT_NEAR(item(kl[1]), (1 + 4 - 1 - std::log(4.0) + 4 + 0.25 - 1 - std::log(0.25)) / 2, 1e-14);
  EXPECT_THROW(kl_to_standard_normal(at::zeros({1, 3, 1})), Error);
}

// E[log p(x) - log q(x)] over samples of p, within four standard errors.
TEST(KlToStandardNormal, IsTheExpectedLogRatio) {
  at::manual_seed(2);
  const double mean = 0.7, logvar = -0.8, std = std::exp(logvar / 2);
  const Tensor e = at::randn({200000}, at::kDouble), x = mean + std * e;
  const Tensor ratio = -0.5 * e.square() - logvar / 2 + 0.5 * x.square();
  const double error = item(ratio.std()) / std::sqrt(200000.0);
  EXPECT_NEAR(item(kl_to_standard_normal(doubles({mean, logvar}).view({1, 2}))[0]), item(ratio.mean()),
              4 * error);
}

TEST(ReconstructionLosses, AreMeansOfASample) {
  const Tensor a = doubles({1, 2, 3, 4}).view({2, 1, 2}), b = doubles({0, 4, 3, 1}).view({2, 1, 2});
  EXPECT_TRUE(at::equal(l1_per_sample(a, b), doubles({1.5, 1.5})));
  EXPECT_TRUE(at::equal(mse_per_sample(a, b), doubles({2.5, 4.5})));
  EXPECT_EQ(l1_per_sample(a.to(at::kBFloat16), b.to(at::kBFloat16)).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace kinora::core
