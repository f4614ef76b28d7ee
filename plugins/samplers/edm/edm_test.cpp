// Heun and Euler against an independent float64 implementation and against the exact flow of a Gaussian
// mixture.
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/mixture.hpp"
#include "kinora/aten.hpp"
#include "plugins/samplers/edm/plain_edm_testing.hpp"
#include "tests/support/plugins.hpp"

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

// A run that counts steps, may cancel, and hands out draw().
struct TestRun {
  kinora_run abi{};
  int64_t steps = 0, draws = 0, cancel_at = -1;
  at::Tensor preview;
  TestRun() {
    abi.struct_size = sizeof abi;
    abi.self = this;
    abi.progress = [](void* self, int64_t done, int64_t, kinora_tensor preview) -> int32_t {
      auto& r = *static_cast<TestRun*>(self);
      r.steps = done;
      if (done == r.cancel_at) return KINORA_CANCELLED;
      r.preview = borrow<at::Tensor>(preview);
      return KINORA_OK;
    };
    abi.noise = [](void* self, const char*, kinora_tensor like, kinora_tensor* out) -> int32_t {
      auto& r = *static_cast<TestRun*>(self);
      at::Tensor t = at::empty_like(borrow<at::Tensor>(like));
      for (int64_t i = 0; i < t.size(0); ++i)
        for (int64_t d = 0; d < t.size(1); ++d) t[i][d] = draw(r.draws, size_t(i), size_t(d));
      ++r.draws;
      *out = give(t);
      return KINORA_OK;
    };
  }
};

struct Result {
  at::Tensor x;
  int64_t calls = 0, steps = 0;
};

Result run(const char* id, const json& options, core::Mixture m = mixture(),
           const at::Tensor& noise = matrix(kNoise)) {
  test::Instance<kinora_sampler> sampler(id, options);
  TestRun r;
  const kinora_denoiser d = m.abi();
  kinora_tensor out = nullptr;
  check(sampler->sample(sampler.self(), &d, handle(noise), &r.abi, &out));
  return {adopt<at::Tensor>(out), m.calls(), r.steps};
}

double difference(const at::Tensor& got, const Plain& p) {
  double worst = 0;
  for (size_t i = 0; i < kNoise.size(); ++i) {
    const Row want = reference(p, i);
    for (size_t d = 0; d < want.size(); ++d)
      worst = std::max(worst, std::abs(got[int64_t(i)][int64_t(d)].item<double>() - want[d]) /
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

TEST(EdmSamplers, ChurnFollowsAlgorithm2) {
  const json o = {{"steps", 16}, {"s_churn", 9.0}, {"s_min", 0.05}, {"s_max", 20.0}, {"s_noise", 1.007}};
  EXPECT_LT(difference(run("sampler/edm-heun", o).x,
                       {.steps = 16, .churn = 9, .from = 0.05, .to = 20, .scale = 1.007}),
            1e-12);
  const json capped = {{"steps", 16}, {"s_churn", 400.0}};  // more than sqrt(2) - 1 a step is not added
  EXPECT_LT(difference(run("sampler/edm-heun", capped).x, {.steps = 16, .churn = 400}), 1e-12);
}

// In one dimension the probability flow keeps the cumulative distribution, which gives its end without any
// integration.
double exact_end(double x, double sigma) {
  const auto cdf = [](double v, double s) {
    double f = 0;
    for (const auto& c : kMixture)
      f += c.weight * 0.5 * std::erfc(-(v - c.mean[0]) / std::sqrt(2 * (c.std * c.std + s * s)));
    return f;
  };
  double low = -20, high = 20;
  for (int i = 0; i < 200; ++i) {
    const double mid = 0.5 * (low + high);
    (cdf(mid, 0) < cdf(x, sigma) ? low : high) = mid;
  }
  return 0.5 * (low + high);
}

// log2 of how much the error falls when the steps double.
double measured_order(const char* id, int64_t steps, json options = json::object()) {
  std::vector<Row> mean, noise;
  Row std, weight;
  for (const auto& c : kMixture)
    mean.push_back({c.mean[0]}), std.push_back(c.std), weight.push_back(c.weight);
  for (double v = -1.5; v < 1.6; v += 0.1) noise.push_back({v});
  const core::Mixture m(matrix(mean), at::tensor(std, at::kDouble), at::tensor(weight, at::kDouble));
  const auto error = [&](int64_t n) {
    options["steps"] = n;
    options["sigma_max"] = 20.0;
    options["sigma_min"] = 1e-4;
    const at::Tensor x = run(id, options, m, matrix(noise)).x;
    double sum = 0;
    for (size_t i = 0; i < noise.size(); ++i)
      sum += std::abs(x[int64_t(i)][0].item<double>() - exact_end(20 * noise[i][0], 20));
    return sum;
  };
  const double order = std::log2(error(steps) / error(2 * steps));
  testing::Test::RecordProperty(id, std::to_string(order));
  return order;
}

TEST(EdmSamplers, HeunIsSecondOrderEulerFirst) {
  EXPECT_NEAR(measured_order("sampler/edm-heun", 160), 2.0, 0.1);
  EXPECT_NEAR(measured_order("sampler/euler", 320), 1.0, 0.1);
}

// The corrector that asks at the step's start gives the slope it had: Heun at first order, that is Euler at
// twice the price.
TEST(EdmSamplers, NemoCompatibilityIsEulerInDisguise) {
  const Result nemo = run("sampler/edm-heun", {{"steps", 12}, {"compat", "nemo"}});
  EXPECT_LT(difference(nemo.x, {.heun = false}), 1e-12);
  EXPECT_GT(difference(nemo.x, {}), 1e-3);
  EXPECT_EQ(nemo.calls, 23);
  EXPECT_NEAR(measured_order("sampler/edm-heun", 320, {{"compat", "nemo"}}), 1.0, 0.1);
}

TEST(EdmSamplers, CountTheirCalls) {
  for (int64_t n : {1, 2, 35}) {
    EXPECT_EQ(run("sampler/edm-heun", {{"steps", n}}).calls, 2 * n - 1);
    EXPECT_EQ(run("sampler/euler", {{"steps", n}}).calls, n);
    EXPECT_EQ(run("sampler/euler", {{"steps", n}}).steps, n);
  }
}

TEST(EdmSamplers, LevelsDescendToZero) {
  for (const char* id : {"sampler/edm-heun", "sampler/euler"}) {
    test::Instance<kinora_sampler> s(id);
    kinora_tensor out = nullptr;
    check(s->levels(s.self(), &out));
    const at::Tensor t = adopt<at::Tensor>(out);
    ASSERT_EQ(t.numel(), 36);
    EXPECT_DOUBLE_EQ(t[0].item<double>(), 80);
    EXPECT_NEAR(t[34].item<double>(), 0.002, 1e-15);
    EXPECT_EQ(t[35].item<double>(), 0);
    EXPECT_TRUE((t.slice(0, 1) < t.slice(0, 0, 35)).all().item<bool>());
  }
}

// A denoiser that remembers what it saw without keeping it alive, and may fail.
struct Watching {
  core::Mixture m = mixture();
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> seen;
  int32_t fail_with = KINORA_OK;
  kinora_denoiser abi() {
    return {sizeof(kinora_denoiser), 0, this,
            [](void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) -> int32_t {
              auto& w = *static_cast<Watching*>(self);
              w.seen.emplace_back(borrow<at::Tensor>(x).getIntrusivePtr());
              if (w.fail_with && w.seen.size() == 5) return set_error(w.fail_with, "the model's own words");
              const at::Tensor x0 = w.m.denoise(borrow<at::Tensor>(x), borrow<at::Tensor>(sigma));
              w.seen.emplace_back(x0.getIntrusivePtr());
              *out = give(x0);
              return KINORA_OK;
            }};
  }
  bool alive() const {
    return std::any_of(seen.begin(), seen.end(), [](const auto& t) { return !t.expired(); });
  }
};

TEST(EdmSamplers, CancellationLeavesNothing) {
  for (const char* id : {"sampler/edm-heun", "sampler/euler"}) {
    test::Instance<kinora_sampler> s(id, {{"steps", 8}});
    const at::Tensor noise = matrix(kNoise);
    Watching w;
    TestRun r;
    r.cancel_at = 3;
    const kinora_denoiser d = w.abi();
    kinora_tensor out = nullptr;
    EXPECT_EQ(s->sample(s.self(), &d, handle(noise), &r.abi, &out), KINORA_CANCELLED);
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(r.steps, 3);
    r.preview = at::Tensor();
    EXPECT_FALSE(w.alive());
  }
}

TEST(EdmSamplers, PassTheDenoisersErrorOn) {
  test::Instance<kinora_sampler> s("sampler/edm-heun", {{"steps", 8}});
  Watching w;
  w.fail_with = KINORA_DATA;
  TestRun r;
  const kinora_denoiser d = w.abi();
  const at::Tensor noise = matrix(kNoise);
  kinora_tensor out = nullptr;
  EXPECT_EQ(s->sample(s.self(), &d, handle(noise), &r.abi, &out), KINORA_DATA);
  EXPECT_EQ(test::last_error(), "the model's own words");
  EXPECT_EQ(out, nullptr);
}

TEST(EdmSamplers, RefuseAGridThatDoesNotDescend) {
  EXPECT_THROW(test::Instance<kinora_sampler>("sampler/euler", {{"sigma_min", 90.0}}), Error);
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

}  // namespace
}  // namespace kinora
