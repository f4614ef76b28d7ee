// The levels that loss/edm and loss/rectified-flow draw, against their distribution functions.
#include "kinora/aten.hpp"
#include "plugins/losses/loss_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using core::json;

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

TEST(LogNormalLevels, ScaleMultipliesThem) {
  for (const char* id : {"loss/edm", "loss/rectified-flow"}) {
    const at::Tensor u = at::linspace(0.01, 0.99, 37, at::kDouble);
    const at::Tensor plain = test::loss(id, {{"p_mean", 1.6}, {"p_std", 1.2}}).level(u);
    const at::Tensor scaled =
        test::loss(id, {{"p_mean", 1.6}, {"p_std", 1.2}, {"level_scale", std::sqrt(24.0)}}).level(u);
    EXPECT_LT(test::worst(scaled, plain * std::sqrt(24.0)), 1e-13);
  }
}

// F(sigma) = (1 - share) Phi((ln sigma - p_mean) / p_std) + share * (ln sigma - ln low) / (ln high - ln low):
// every quantile of 20,000 levels.
TEST(LogNormalLevels, ShareIsDrawnFromTheHighRange) {
  for (const char* id : {"loss/edm", "loss/rectified-flow"})
    for (const double share : {0.05, 0.5, 1.0}) {
      const auto loss = test::loss(id, {{"p_mean", 1.0},
                                        {"p_std", 1.2},
                                        {"high_sigma_share", share},
                                        {"high_sigma_min", 100.0},
                                        {"high_sigma_max", 1e5}});
      const int64_t n = 20000;
      const at::Tensor sorted = test::quantiles(loss, n);
      double worst = 0;
      for (int64_t i = 0; i < n; i += 7) {
        const double l = std::log(sorted[i].item<double>());
        const double high = std::clamp((l - std::log(100)) / std::log(1e3), 0.0, 1.0);
        const double f = (1 - share) * normal_cdf((l - 1) / 1.2) + share * high;
        worst = test::worse(worst, std::abs(f - (static_cast<double>(i) + 0.5) / static_cast<double>(n)));
      }
      EXPECT_LT(worst, 2.0 / static_cast<double>(n)) << id << share;
      EXPECT_LE(sorted.max().item<double>(), 1e5);
    }
}

// P(sigma < x | low < sigma < high) in closed form; the high share is as without limits.
TEST(LogNormalLevels, LimitsTruncateThem) {
  const int64_t n = 20000;
  for (const char* id : {"loss/edm", "loss/rectified-flow"})
    for (const double share : {0.0, 0.25}) {
      const double low = 3, high = 40, scale = 2;
      const auto below = [&](double x) { return normal_cdf((std::log(x / scale) - 0.3) / 1.2); };
      const at::Tensor u = (at::arange(n, at::kDouble) + 0.5) / static_cast<double>(n);
      const at::Tensor made = test::loss(id, {{"p_mean", 0.3},
                                              {"p_std", 1.2},
                                              {"level_scale", scale},
                                              {"sigma_min", low},
                                              {"sigma_max", high},
                                              {"high_sigma_share", share}})
                                  .level(u);
      double worst = 0;
      for (int64_t i = 0; i < n; i += 7) {
        const double x = made[i].item<double>(), part = u[i].item<double>() / (1 - share);
        if (part >= 1)
          EXPECT_GE(x, 200);
        else
          worst = test::worse(worst, std::abs((below(x) - below(low)) / (below(high) - below(low)) - part));
      }
      EXPECT_LT(worst, 1e-12) << id << share;
    }
  EXPECT_THROW(test::loss("loss/edm", {{"sigma_min", 1e9}}), Error);
  EXPECT_EQ(test::loss("loss/edm", {{"sigma_min", 1e9}, {"limits", "clamp"}})
                .level(at::full({1}, 0.5, at::kDouble))
                .item<double>(),
            1e9);
}

TEST(LogNormalLevels, AreOneFunctionOfTheirNumber) {
  const auto loss = test::loss("loss/edm", {{"high_sigma_share", 0.05}});
  const at::Tensor u = at::rand({4, 6}, at::kDouble), all = loss.level(u);
  EXPECT_TRUE(at::equal(loss.level(u[2]), all[2]));
  EXPECT_TRUE(all.isfinite().all().item<bool>());
  EXPECT_TRUE(at::equal(loss.level(at::full({1}, 0.949, at::kDouble)) < 200, at::ones({1}, at::kBool)));
  EXPECT_NEAR(loss.level(at::full({1}, 0.95, at::kDouble)).item<double>(), 200, 1e-9);
}

TEST(LogNormalLevels, RefuseEmptyRanges) {
  for (const json& o : {json{{"sigma_min", 3.0}, {"sigma_max", 3.0}}, json{{"high_sigma_min", 2e5}}})
    EXPECT_THROW(test::loss("loss/rectified-flow", o), Error) << o;
}

}  // namespace
}  // namespace kinora
