// The samplers on EDM's grid against independent implementations and against the exact flow of a Gaussian
// mixture.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "plugins/samplers/sampler_testing.hpp"
#include "tests/support/worst.hpp"

// Algorithms 1 and 2 of Karras et al. 2022 (arXiv 2206.00364) and Euler's method, on a mixture of Gaussians:
// plain loops over doubles that share nothing with the plugin or with core.
namespace kinora::plain {

using Row = std::vector<double>;

struct Component {
  double weight, std;
  Row mean;
};
inline const std::vector<Component> kMixture = {
    {0.3, 0.4, {-1.5, 0.5}}, {0.5, 0.7, {1.0, -0.2}}, {0.2, 0.3, {0.3, 2.0}}};
inline const std::vector<Row> kNoise = {{0.3, -1.1}, {-0.8, 0.4}, {1.9, 0.05}};

inline Row posterior_mean(const Row& x, double sigma) {
  Row out(x.size(), 0);
  double best = -INFINITY, total = 0;
  std::vector<double> logs;
  for (const auto& c : kMixture) {
    const double v = c.std * c.std + sigma * sigma;
    double l = std::log(c.weight);
    for (size_t d = 0; d < x.size(); ++d)
      l -= 0.5 * (std::log(v) + (x[d] - c.mean[d]) * (x[d] - c.mean[d]) / v);
    logs.push_back(l);
    best = test::worse(best, l);
  }
  for (double l : logs) total += std::exp(l - best);
  for (size_t k = 0; k < logs.size(); ++k) {
    const auto& c = kMixture[k];
    const double r = std::exp(logs[k] - best) / total, v = c.std * c.std + sigma * sigma;
    for (size_t d = 0; d < x.size(); ++d)
      out[d] += r * (c.std * c.std * x[d] + sigma * sigma * c.mean[d]) / v;
  }
  return out;
}

inline double level(int64_t i, int64_t n, double low, double high, double rho) {
  if (i == n) return 0;
  const double a = std::pow(high, 1 / rho), b = std::pow(low, 1 / rho);
  return n == 1 ? high : std::pow(a + double(i) / double(n - 1) * (b - a), rho);
}

// Fresh noise that the run provides at each call: the same numbers for the plugin and for the reference.
using Draw = double (*)(int64_t call, size_t row, size_t d);

struct Plain {
  int64_t steps = 12;
  double low = 0.002, high = 80, rho = 7, churn = 0, from = 0, to = 1e9, scale = 1;
  bool heun = true;
  Draw draw = nullptr;
};

inline Row reference(const Plain& p, size_t row) {
  Row x = kNoise[row];
  for (double& v : x) v *= level(0, p.steps, p.low, p.high, p.rho);
  int64_t draws = 0;
  for (int64_t i = 0; i < p.steps; ++i) {
    double t = level(i, p.steps, p.low, p.high, p.rho);
    const double next = level(i + 1, p.steps, p.low, p.high, p.rho);
    if (p.churn > 0 && t >= p.from && t <= p.to) {
      const double up = t * (1 + std::min(p.churn / double(p.steps), std::sqrt(2.0) - 1));
      for (size_t d = 0; d < x.size(); ++d)
        x[d] += std::sqrt(up * up - t * t) * p.scale * p.draw(draws, row, d);
      ++draws;
      t = up;
    }
    const Row d0 = posterior_mean(x, t);
    Row y = x;
    for (size_t d = 0; d < x.size(); ++d) y[d] += (next - t) * (x[d] - d0[d]) / t;
    if (p.heun && next > 0) {
      const Row d1 = posterior_mean(y, next);
      for (size_t d = 0; d < x.size(); ++d)
        x[d] += (next - t) * 0.5 * ((x[d] - d0[d]) / t + (y[d] - d1[d]) / next);
    } else {
      x = y;
    }
  }
  return x;
}

}  // namespace kinora::plain

namespace kinora {
namespace {

using core::json;
using namespace plain;  // NOLINT(google-build-using-namespace)

at::Tensor matrix(const std::vector<Row>& rows) {
  at::Tensor out = at::empty({int64_t(rows.size()), int64_t(rows[0].size())}, at::kDouble);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows[i].size(); ++j) out[int64_t(i)][int64_t(j)] = rows[i][j];
  return out;
}

core::Mixture mixture() {
  std::vector<Row> mean;
  Row std, weight;
  for (const auto& c : kMixture) mean.push_back(c.mean), std.push_back(c.std), weight.push_back(c.weight);
  return {matrix(mean), at::tensor(std, at::kDouble), at::tensor(weight, at::kDouble)};
}

test::Sampled run(const char* id, const json& options) {
  return test::sampled(id, options, mixture(), matrix(kNoise));
}

double draw(int64_t call, size_t row, size_t d) {
  return test::numbers("draw" + std::to_string(call), {3, 2})[int64_t(row)][int64_t(d)].item<double>();
}

double difference(const at::Tensor& got, const Plain& p) {
  double worst = 0;
  for (size_t i = 0; i < kNoise.size(); ++i) {
    const Row want = reference(p, i);
    for (size_t d = 0; d < want.size(); ++d)
      worst = test::worse(worst, std::abs(got[int64_t(i)][int64_t(d)].item<double>() - want[d]) /
                                     std::max(1.0, std::abs(want[d])));
  }
  return worst;
}

TEST(EdmSamplers, EqualAnIndependentImplementation) {
  EXPECT_LT(difference(run("sampler/edm-heun", {{"steps", 12}}).x, {}), 1e-12);
  EXPECT_LT(difference(run("sampler/edm-heun", {{"steps", 1}}).x, {.steps = 1}), 1e-12);
  EXPECT_LT(difference(run("sampler/euler", {{"steps", 12}}).x, {.heun = false}), 1e-12);
  const json other = {{"steps", 20}, {"sigma_min", 0.01}, {"sigma_max", 30.0}, {"rho", 3.0}};
  EXPECT_LT(difference(run("sampler/edm-heun", other).x, {.steps = 20, .low = 0.01, .high = 30, .rho = 3}),
            1e-12);
}

// As diffusers' EDMEulerScheduler with final_sigmas_type = "sigma_min", except for a last step without
// effect.
TEST(EdmSamplers, EulerMayStayAtTheLastLevelBeforeZero) {
  const auto all = run("sampler/euler", {{"steps", 6}}),
             short_of = run("sampler/euler", {{"steps", 6}, {"final", "sigma_min"}});
  auto levels = all.levels;
  levels.pop_back();
  EXPECT_EQ(short_of.levels, levels);
  EXPECT_NEAR(short_of.levels.back(), 0.002, 1e-15);
  EXPECT_EQ(short_of.calls, 5);
  EXPECT_GT((short_of.x - all.x).abs().max().item<double>(), 1e-5) << "noise of 0.002 is left";
  EXPECT_LT((short_of.x - all.x).abs().max().item<double>(), 0.02);
  EXPECT_THROW(run("sampler/euler", {{"steps", 1}, {"final", "sigma_min"}}), Error);
}

TEST(EdmSamplers, ChurnFollowsAlgorithm2) {
  const json o = {{"steps", 16}, {"s_churn", 9.0}, {"s_min", 0.05}, {"s_max", 20.0}, {"s_noise", 1.007}};
  EXPECT_LT(difference(run("sampler/edm-heun", o).x,
                       {.steps = 16, .churn = 9, .from = 0.05, .to = 20, .scale = 1.007, .draw = draw}),
            1e-12);
  const json capped = {{"steps", 16}, {"s_churn", 400.0}};  // at most sqrt(2) - 1 is added per step
  EXPECT_LT(difference(run("sampler/edm-heun", capped).x, {.steps = 16, .churn = 400, .draw = draw}), 1e-12);
}

// The interval of churn is closed: the first level equals sigma_max to the bit.
TEST(EdmSamplers, ChurnAtBothEndsOfItsInterval) {
  const auto with = [](json more) {
    more.update({{"steps", 16}, {"s_churn", 9.0}});
    return run("sampler/edm-heun", more).x;
  };
  EXPECT_TRUE(at::equal(with({{"s_max", 80.0}}), with(json::object())));
  EXPECT_FALSE(at::equal(with({{"s_min", 80.0}}), with({{"s_min", 81.0}})));
}

const json kFine = {{"sigma_max", 20.0}, {"sigma_min", 1e-4}};

TEST(EdmSamplers, HeunIsSecondOrderEulerFirst) {
  EXPECT_NEAR(test::measured_order("sampler/edm-heun", 160, kFine), 2.0, 0.1);
  EXPECT_NEAR(test::measured_order("sampler/euler", 320, kFine), 1.0, 0.1);
}

// The corrector that calls the denoiser at the step's start returns the same slope: Heun at first order, that
// is Euler at twice the cost.
TEST(EdmSamplers, NemoCompatibilityIsEulerInDisguise) {
  const test::Sampled nemo = run("sampler/edm-heun", {{"steps", 12}, {"compat", "nemo"}});
  EXPECT_LT(difference(nemo.x, {.heun = false}), 1e-12);
  EXPECT_GT(difference(nemo.x, {}), 1e-3);
  EXPECT_EQ(nemo.calls, 23);
  json options = kFine;
  options["compat"] = "nemo";
  EXPECT_NEAR(test::measured_order("sampler/edm-heun", 320, options), 1.0, 0.1);
}

TEST(EdmSamplers, CountTheirCalls) {
  for (int64_t n : {1, 2, 35}) {
    EXPECT_EQ(run("sampler/edm-heun", {{"steps", n}}).calls, 2 * n - 1);
    EXPECT_EQ(run("sampler/euler", {{"steps", n}}).calls, n);
    EXPECT_EQ(run("sampler/euler", {{"steps", n}}).steps, n);
  }
}

TEST(EdmSamplers, LevelsDescendToZero) {
  for (const char* id : {"sampler/edm-heun", "sampler/euler", "sampler/dpmpp-2m"}) {
    const at::Tensor t = at::tensor(test::levels_of(test::Instance<kinora_sampler>(id)), at::kDouble);
    ASSERT_EQ(t.numel(), 36);
    EXPECT_DOUBLE_EQ(t[0].item<double>(), 80);
    EXPECT_NEAR(t[34].item<double>(), 0.002, 1e-15);
    EXPECT_EQ(t[35].item<double>(), 0);
    EXPECT_TRUE((t.slice(0, 1) < t.slice(0, 0, 35)).all().item<bool>());
  }
}

TEST(EdmSamplers, OweTheCaller) {
  for (const char* id : {"sampler/edm-heun", "sampler/euler"}) {
    test::expect_cancellation_leaves_nothing(id, {{"steps", 8}});
    test::expect_error_passes(id, {{"steps", 8}});
    test::expect_deterministic(id, {{"steps", 8}});
  }
}

TEST(EdmSamplers, RefuseAGridThatDoesNotDescend) {
  EXPECT_EQ(test::refusal("sampler/euler", {{"sigma_min", 90.0}}),
            "sampler/euler: sigma_min = 90.0 must be below sigma_max = 80.0");
  EXPECT_NE(test::refusal("sampler/edm-heun", {{"sigma_min", 80.0}}), "");
}

TEST(Mixture, EqualsThePlainPosteriorMean) {
  auto m = mixture();
  for (double sigma : {1e-3, 0.1, 1.0, 80.0}) {
    const at::Tensor x0 = m.denoise(matrix(kNoise) * (1 + sigma), at::full({3}, sigma, at::kDouble));
    for (size_t i = 0; i < kNoise.size(); ++i) {
      Row x = kNoise[i];
      for (double& v : x) v *= 1 + sigma;
      const Row want = posterior_mean(x, sigma);
      for (size_t d = 0; d < want.size(); ++d)
        EXPECT_NEAR(x0[int64_t(i)][int64_t(d)].item<double>(), want[d], 1e-13);
    }
  }
  EXPECT_EQ(m.calls(), 4);
  EXPECT_THROW(core::Mixture(at::zeros({2, 3}), at::ones({3}), at::ones({2})), Error);
}

// Pure noise, s = 1, contains nothing of x0: the result is the mean of all.
TEST(Mixture, DenoisesABlendAsTheSameInTheOtherUnitAndPureNoiseToItsMean) {
  auto m = mixture();
  const at::Tensor x = matrix(kNoise);
  at::Tensor mean = at::zeros({x.size(1)}, at::kDouble);
  double sum = 0;
  for (const auto& c : kMixture) mean += c.weight * matrix({c.mean})[0], sum += c.weight;
  const auto worst = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().max().item<double>();
  };
  EXPECT_LT(
      worst(m.denoise(x, at::ones({3}, at::kDouble), KINORA_MIX_RECTIFIED_FLOW), (mean / sum).expand_as(x)),
      1e-14);
  for (const double s : {0.001, 0.5, 0.99}) {
    const at::Tensor level = at::full({3}, s, at::kDouble);
    EXPECT_LT(worst(m.denoise(x, level, KINORA_MIX_RECTIFIED_FLOW), m.denoise(x / (1 - s), level / (1 - s))),
              1e-13)
        << s;
  }
}

TEST(Mixture, NamesWhatHasAnotherShapeOrHoldsIntegers) {
  const at::Tensor mean = at::zeros({1, 2}), one = at::ones({1}), whole = at::ones({1}, at::kLong);
  const auto said = [](auto make) -> std::string {
    try {
      make();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(said([&] {
              core::Mixture(at::zeros({1, 2}, at::kLong), one, one);
            }),
            "mean must be of floating point, it is Long");
  EXPECT_EQ(said([&] { core::Mixture(mean, whole, one); }), "std must be of floating point, it is Long");
  EXPECT_EQ(said([&] { core::Mixture(mean, one, whole); }), "weight must be of floating point, it is Long");
  EXPECT_EQ(said([&] {
              core::Mixture(mean, one, one).noise(at::zeros({3, 2}, at::kLong));
            }),
            "noise must be of floating point, it is Long");
  EXPECT_EQ(said([&] { core::Mixture(mean, one, one).noise(at::zeros({2})); }),
            "noise must have the shape [N, 2], as mean has; it has [2]");
  EXPECT_EQ(core::Mixture(mean, one, one).noise(at::zeros({3, 2})).scalar_type(), at::kDouble);
}

// DPM-Solver++ 2M against diffusers' EDMDPMSolverMultistepScheduler and against the exact flow.
const char* const kId = "sampler/dpmpp-2m";

TEST(Dpmpp2m, EqualsDiffusers) {
  double worst = 0, worst32 = 0;
  for (const auto& name : test::cases("dpmpp")) {
    const test::Oracle o("samplers.safetensors", name);
    const double d = test::oracle_difference(kId, o), d32 = test::oracle_difference(kId, o, "sample32");
    EXPECT_LT(d, 1e-12) << name;
    EXPECT_LT(d32, 1e-5) << name;  // diffusers' levels are float32, starting at 80
    worst = test::worse(worst, d), worst32 = test::worse(worst32, d32);
  }
  RecordProperty("worst", std::to_string(worst * 1e12) + "e-12");
  RecordProperty("worst32", std::to_string(worst32 * 1e6) + "e-6");
}

TEST(Dpmpp2m, IsSecondOrder) {
  const core::json fine = {{"sigma_max", 20.0}, {"sigma_min", 1e-4}};
  EXPECT_NEAR(test::measured_order(kId, 160, fine), 2.0, 0.1);
  core::json heun = fine;
  heun["solver_type"] = "heun";
  EXPECT_NEAR(test::measured_order(kId, 160, heun), 2.0, 0.1);
}

TEST(Dpmpp2m, AsksOnceAStepAtEachLevel) {
  for (int64_t n : {1, 2, 35}) {
    auto made = test::sampled(kId, {{"steps", n}}, test::line(), at::ones({2, 1}, at::kDouble));
    EXPECT_EQ(made.calls, n);
    EXPECT_EQ(made.steps, n);
    made.levels.pop_back();
    EXPECT_EQ(made.visited, made.levels);
  }
}

TEST(Dpmpp2m, OwesTheCaller) {
  test::expect_cancellation_leaves_nothing(kId, {{"steps", 8}});
  test::expect_error_passes(kId, {{"steps", 8}});
  test::expect_deterministic(kId, {{"steps", 8}});
}

TEST(Dpmpp2m, RefusesAGridThatDoesNotDescend) {
  EXPECT_EQ(test::refusal(kId, {{"sigma_min", 2.0}, {"sigma_max", 2.0}}),
            "sampler/dpmpp-2m: sigma_min = 2.0 must be below sigma_max = 2.0");
}

TEST(EdmSamplers, GoOnFromTheMiddle) {
  for (const char* id : {"sampler/euler", "sampler/edm-heun"})
    test::expect_goes_on_from_the_middle(id, {{"steps", 8}});
}

}  // namespace

}  // namespace kinora
