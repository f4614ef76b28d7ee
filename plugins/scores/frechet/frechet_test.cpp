// score/frechet and the statistics behind it, against closed forms.
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/scores/frechet/statistics.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/score.hpp"

namespace kinora::frechet {
namespace {

using at::Tensor;
using testing::HasSubstr;

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

std::pair<Tensor, Tensor> features() {
  at::manual_seed(6);
  return {at::randn({12, 3}, at::kDouble) + 2, at::randn({9, 3}, at::kDouble) * 2};
}

double number(const core::ScoreInstance& score) { return score.compute().at(0).second; }

TEST(FrechetScore, IsTheDistanceOfTheTwoSets) {
  const auto [real, made] = features();
  const auto covariance = [](const Tensor& x) {
    const Tensor centred = x - x.mean(0);
    return at::matmul(centred.t(), centred) / static_cast<double>(x.size(0) - 1);
  };
  const double want = frechet_distance(real.mean(0), covariance(real), made.mean(0), covariance(made));
  EXPECT_NEAR(test::scored("frechet", {{"real", real}, {"made", made}}) / want, 1, 1e-12);
  // The sets need not arrive together.
  const auto apart = test::score("frechet");
  apart->update({{"made", made}});
  apart->update({{"real", real}});
  EXPECT_NEAR(number(*apart) / want, 1, 1e-12);
}

TEST(FrechetScore, OfStatesOfSeveralRanksIsThatOfOne) {
  const auto [real, made] = features();
  const auto whole = test::score("frechet"), merged = test::score("frechet");
  whole->update({{"real", real}, {"made", made}});
  // The first rank has seen nothing, the second one set only.
  const auto none = test::score("frechet"), one = test::score("frechet"), rest = test::score("frechet");
  EXPECT_EQ(none->state().numel(), 0);
  one->update({{"real", real.narrow(0, 0, 1)}});
  rest->update({{"real", real.narrow(0, 1, 11)}, {"made", made}});
  for (const auto* rank : {&none, &one, &rest}) merged->merge((*rank)->state());
  EXPECT_NEAR(number(*merged) / number(*whole), 1, 1e-12);
  // A copy of a state is the instance.
  const auto copy = test::score("frechet");
  copy->merge(merged->state());
  EXPECT_TRUE(at::equal(copy->state(), merged->state()));
  EXPECT_EQ(number(*copy), number(*merged));
}

TEST(FrechetScore, HasNoNumberOfASample) {
  EXPECT_EQ(test::Instance<kinora_score>("score/frechet")->each, nullptr);
}

TEST(FrechetScore, RefusesWhatDoesNotFit) {
  const auto score = test::score("frechet");
  EXPECT_THAT(test::refusal([&] { score->compute(); }), HasSubstr("requires two feature vectors or more"));
  EXPECT_THAT(test::refusal([&] { score->update({}); }), HasSubstr("neither 'real' nor 'made'"));
  score->update({{"real", at::ones({1, 3})}});
  EXPECT_THAT(test::refusal([&] {
                score->update({{"real", at::ones({1, 3})}, {"made", at::ones({1, 4})}});
              }),
              HasSubstr("features must be [N, 3], found [1, 4]"));
  EXPECT_EQ(score->state()[0].item<double>(), 1) << "the refused update left its first half";
  EXPECT_THAT(test::refusal([&] { score->merge(at::zeros({25}, at::kDouble)); }),
              HasSubstr("a state of 25 numbers is not one of 3 features a vector"));
  for (const Tensor& wrong : {at::full({26}, -1.0, at::kDouble), at::full({26}, 0.5, at::kDouble)})
    EXPECT_THAT(test::refusal([&] { score->merge(wrong); }), HasSubstr("is not one of 3 features"))
        << wrong[0];
}

}  // namespace
}  // namespace kinora::frechet
