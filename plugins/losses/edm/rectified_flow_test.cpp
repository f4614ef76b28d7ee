// Rectified flow against Cosmos Predict 2's own scalings, and against its invariants.
#include "kinora/aten.hpp"
#include "plugins/losses/loss_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

const char* const kId = "loss/rectified-flow";

// Given frames have sigma = 0.
at::Tensor levels_of(const test::Oracle& o) {
  at::Tensor sigma = test::numbers("sigma", o.exact("timestep").sizes()).exp();
  const auto given = static_cast<int64_t>(o.exact("given").item<double>());
  if (given > 0) sigma.narrow(1, 0, given).zero_();
  return sigma;
}

TEST(RectifiedFlowLoss, EqualsCosmos) {
  double error = 0;
  for (int i = 0; i < 3; ++i) {
    const test::Oracle o("losses.safetensors", "rectified" + std::to_string(i));
    const auto loss = test::loss(kId, o.options);
    const at::Tensor sigma = levels_of(o);
    const test::LossInputs given;
    const auto made = loss.evaluate(given.with(sigma));
    made.at("loss").sum().backward();
    const auto input = loss.input(loss.noisy(given.latent, given.noise, sigma), sigma);
    for (const auto& [a, b] :
         std::vector<std::pair<at::Tensor, std::string>>{{made.at("loss").detach(), "loss"},
                                                         {given.prediction.grad(), "grad.prediction"},
                                                         {input.latent, "latent"},
                                                         {input.timestep, "timestep"},
                                                         {made.at("timestep"), "timestep"}}) {
      EXPECT_LT(test::worst(a, o.exact(b)), 1e-12) << i << b;
      error = test::worse(error, test::worst(a, o.exact(b)));
    }
  }
  RecordProperty("worst", std::to_string(error * 1e12) + "e-12");
}

TEST(RectifiedFlowLoss, PerfectPredictionCostsNothingAndEstimatesTheLatent) {
  const auto loss = test::loss(kId);
  test::LossInputs given;
  for (const double sigma : {1e-3, 1.0, 80.0, 1e5}) {
    const at::Tensor s = at::full({2}, sigma, at::kDouble);
    given.prediction = loss.evaluate(given.with(s)).at("target");
    EXPECT_EQ(loss.evaluate(given.with(s)).at("loss").abs().max().item<double>(), 0);
    const at::Tensor x = loss.noisy(given.latent, given.noise, s);
    EXPECT_LT(test::worst(loss.estimate(x, s, given.prediction), given.latent), 1e-12) << sigma;
    const at::Tensor weight = loss.evaluate(given.with(s)).at("weight");
    EXPECT_LT(test::worst(weight * (s / (1 + s)).square(), at::ones({2}, at::kDouble)), 1e-12);
  }
}

TEST(RectifiedFlowLoss, GivenFramesStayAsTheyAre) {
  const auto loss = test::loss(kId);
  const test::LossInputs given;
  const at::Tensor s = at::zeros({2, 4}, at::kDouble);
  const at::Tensor x = loss.noisy(given.latent, given.noise, s);
  EXPECT_TRUE(at::equal(x, given.latent));
  EXPECT_TRUE(at::equal(loss.estimate(x, s, given.prediction.detach()), given.latent));
  const auto made = loss.evaluate(given.with(s));
  EXPECT_EQ(made.at("loss").abs().max().item<double>(), 0);
  EXPECT_TRUE(made.at("weight").isfinite().all().item<bool>());
}

TEST(RectifiedFlowLoss, GradientIsThatOfFiniteDifferences) {
  test::expect_gradient(test::loss(kId), test::LossInputs().with(test::numbers("sigma", {2, 4}).exp()),
                        "prediction");
}

}  // namespace
}  // namespace kinora
