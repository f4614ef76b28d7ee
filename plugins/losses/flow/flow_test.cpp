// Flow matching against NeMo DFM's own densities, shifts and weights, and against its invariants.
#include "kinora/aten.hpp"
#include "plugins/losses/loss_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using core::json;
const char* const kId = "loss/flow";

TEST(FlowLoss, EqualsDfm) {
  double error = 0;
  for (int i = 0; i < 3; ++i) {
    const test::Oracle o("losses.safetensors", "flow" + std::to_string(i));
    const auto loss = test::loss(kId, o.options);
    const at::Tensor sigma = test::numbers("sigma", o.exact("timestep").sizes()).sigmoid();
    const test::LossInputs given;
    const at::Tensor made = loss.evaluate(given.with(sigma)).at("loss");
    made.sum().backward();
    const auto input = loss.input(loss.noisy(given.latent, given.noise, sigma), sigma);
    for (const auto& [a, b] :
         std::vector<std::pair<at::Tensor, std::string>>{{made.detach(), "loss"},
                                                         {given.prediction.grad(), "grad.prediction"},
                                                         {input.latent, "latent"},
                                                         {input.timestep, "timestep"}}) {
      EXPECT_LT(test::worst(a, o.exact(b)), 1e-12) << i << b;
      error = test::worse(error, test::worst(a, o.exact(b)));
    }
  }
  RecordProperty("worst", std::to_string(error * 1e12) + "e-12");
}

TEST(FlowLoss, DrawsTheLevelsOfDfm) {
  const at::Tensor u = test::Oracle("losses.safetensors", "").exact("uniform");
  for (int i = 0; i < 8; ++i) {
    const test::Oracle o("losses.safetensors", "levels" + std::to_string(i));
    EXPECT_LT(test::worst(test::loss(kId, o.options).level(u), o.exact("level")), 1e-12) << o.options;
  }
}

// The distribution functions in closed form, at every quantile; for `mode` the inverse has the closed form.
TEST(FlowLoss, LevelsHaveTheirDistribution) {
  const int64_t n = 10000;
  const at::Tensor u = (at::arange(n, at::kDouble) + 0.5) / static_cast<double>(n);
  const at::Tensor even = test::quantiles(test::loss(kId, {{"density", "uniform"}, {"shift", 5.0}}), n);
  EXPECT_LT(test::worst(even / (5 - 4 * even), u), 1e-12);
  const at::Tensor s = test::quantiles(test::loss(kId, {{"logit_mean", 0.4}, {"logit_std", 0.8}}), n);
  EXPECT_LT(test::worst(0.5 * at::erfc(-((s / (1 - s)).log() - 0.4) / (0.8 * std::sqrt(2.0))), u), 1e-12);
  for (const double scale : {1.29, -0.5}) {
    const at::Tensor made = test::loss(kId, {{"density", "mode"}, {"mode_scale", scale}}).level(u);
    EXPECT_GT(made.diff().min().item<double>(), 0);  // required of an inverse distribution function
    EXPECT_LT(test::worst(made, u - scale * ((M_PI / 2 * (1 - u)).cos().square() - u)), 1e-12);
  }
  const at::Tensor cut =
      test::loss(kId, {{"sigma_min", 0.2}, {"sigma_max", 0.7}, {"limits", "clamp"}}).level(u);
  EXPECT_EQ(cut.min().item<double>(), 0.2);
  EXPECT_EQ(cut.max().item<double>(), 0.7);
}

// Their quantiles are those of the levels of the whole distribution that lie within the limits.
TEST(FlowLoss, LimitsTruncateTheDistribution) {
  const int64_t n = 10000;
  const at::Tensor u = (at::arange(n, at::kDouble) + 0.5) / static_cast<double>(n);
  const double low = 0.875, high = 0.99;
  for (const json& o :
       {json{{"shift", 3.0}}, json{{"shift", 5.0}, {"density", "uniform"}},
        json{{"shift", 3.0}, {"density", "mode"}}, json{{"logit_mean", 0.4}, {"logit_std", 0.8}}}) {
    const at::Tensor all = test::quantiles(test::loss(kId, o), 200 * n);
    const at::Tensor want = all.masked_select((all > low) & (all < high));
    json within = o;
    within.update({{"sigma_min", low}, {"sigma_max", high}});
    const at::Tensor made = test::loss(kId, within).level(u);
    EXPECT_GT(made.min().item<double>(), low);
    EXPECT_LT(made.max().item<double>(), high);
    EXPECT_GT(made.diff().min().item<double>(), 0) << o << ": no two draws fall on a limit";
    const at::Tensor at = (u * static_cast<double>(want.numel())).to(at::kLong);
    EXPECT_LT(test::worst(made, want.index_select(0, at)), 5e-4) << o;  // the spacing of `want`
  }
  EXPECT_THROW(test::loss(kId, {{"logit_mean", -20.0}, {"sigma_min", 0.9}}), Error);
}

TEST(FlowLoss, PerfectPredictionCostsNothingAndEstimatesTheLatent) {
  for (const json& o : {json::object(), json{{"weighting", "linear"}, {"shift", 5.0}}}) {
    const auto loss = test::loss(kId, o);
    EXPECT_EQ(loss.mix(), KINORA_MIX_RECTIFIED_FLOW);
    test::LossInputs given;
    for (const double level : {0.0, 1e-3, 0.5, 1.0}) {
      const at::Tensor s = at::full({2, 4}, level, at::kDouble);
      given.prediction = loss.evaluate(given.with(s)).at("target");
      EXPECT_EQ(loss.evaluate(given.with(s)).at("loss").abs().max().item<double>(), 0);
      const at::Tensor x = loss.noisy(given.latent, given.noise, s);
      EXPECT_LT(test::worst(loss.estimate(x, s, given.prediction), given.latent), 1e-14) << level;
      EXPECT_LT(test::worst(x, (1 - level) * given.latent + level * given.noise), 1e-15);
    }
  }
}

TEST(FlowLoss, WholeTimestepsAreRoundedDown) {
  const at::Tensor x = at::zeros({4, 1}, at::kDouble),
                   s = at::tensor({0.9998, 0.937265, 0.833055, 0.624687}, at::kDouble);
  const at::Tensor whole = test::loss(kId, {{"whole_timesteps", true}}).input(x, s).timestep;
  EXPECT_TRUE(at::equal(whole, at::tensor({999.0, 937.0, 833.0, 624.0}, at::kDouble)));
  EXPECT_LT(test::worst(test::loss(kId).input(x, s).timestep, s * 1000), 1e-15);
  EXPECT_EQ(test::loss(kId).input(x.to(at::kBFloat16), s).timestep.scalar_type(), at::kFloat);
}

TEST(FlowLoss, GradientIsThatOfFiniteDifferences) {
  test::expect_gradient(test::loss(kId, {{"weighting", "linear"}, {"shift", 3.0}}),
                        test::LossInputs().with(test::numbers("sigma", {2, 4}).sigmoid()), "prediction");
}

TEST(FlowLoss, SaysWhatIsMissing) {
  try {
    test::loss(kId, {{"shift_type", "sqrt"}});
    FAIL() << "sqrt without tokens";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "loss/flow: shift_type = \"sqrt\" needs `tokens`, the number of tokens of a latent");
  }
  EXPECT_THROW(test::loss(kId, {{"sigma_min", 0.5}, {"sigma_max", 0.5}}), Error);
}

}  // namespace
}  // namespace kinora
