// sampler/flow-renoise against a plain loop over elements, whose noise is drawn here from the counters themselves.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "core/runtime/call.hpp"
#include "core/torch/open.hpp"
#include "kinora/random.hpp"
#include "plugins/samplers/sampler_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using core::json;
constexpr const char* kId = "sampler/flow-renoise";
constexpr uint64_t kSeed = 11;
constexpr int64_t kFirstSample = 4;

// An estimate that no shortcut of the sampler reproduces.
double estimate(double x, double s) { return std::tanh(x) * (1 - 0.5 * s) + 0.1 * s; }

struct Renoised {
  at::Tensor sample;
  std::vector<at::Tensor> asked;  // x of each denoiser call
  std::vector<double> visited;
};

// is_zero: the estimate is 0, so that x of a later call is its level times the noise.
Renoised renoised(const json& options, const at::Tensor& noise, int64_t chunk = 0, bool is_zero = false,
                  int64_t first = 0) {
  const test::Instance<kinora_sampler> sampler(kId, options);
  Renoised out;
  core::FunctionDenoiser denoiser([&](const at::Tensor& x, const at::Tensor& sigma) {
    out.asked.push_back(x.clone());
    out.visited.push_back(sigma[0].item<double>());
    const double s = out.visited.back();
    return is_zero ? at::zeros_like(x) : x.tanh() * (1 - 0.5 * s) + 0.1 * s;
  });
  core::Call call;
  call.seed = kSeed;
  call.first_sample = kFirstSample;
  call.chunk = chunk;
  core::offer_tensors(core::torch_tensors());  // as a program does
  const kinora_run run = core::run_of(call);
  kinora_denoiser abi = denoiser.abi();
  abi.first = first;
  kinora_tensor made = nullptr;
  check(sampler->sample(sampler.self(), &abi, handle(noise), &run, &made));
  out.sample = adopt<at::Tensor>(made);
  return out;
}

// The update rule for one element [b, c, t, h, w] of the sample, written out in double.
double by_hand(double x, const std::vector<double>& levels, int64_t chunk, int64_t b, int64_t frame,
               int64_t element) {
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    const double x0 = estimate(x, levels[i]), s = levels[i + 1];
    if (s == 0) return x0;
    std::string key = "flow-renoise/" + std::to_string(i) + "/" + std::to_string(frame);
    if (chunk > 0) key = "chunk/" + std::to_string(chunk) + "/" + key;
    const auto pair = Random(kSeed, key).normal(static_cast<uint64_t>(element / 2), static_cast<uint64_t>(b));
    x = (1 - s) * x0 + s * pair[static_cast<size_t>(element % 2)];
  }
  return x;
}

TEST(FlowRenoise, EqualsThePlainLoop) {
  constexpr int64_t B = 2, C = 3, T = 3, H = 2, W = 5;
  const at::Tensor noise = test::numbers("noise", {B, C, T, H, W});
  double worst = 0;
  for (const int64_t chunk : {0, 2})
    for (const std::vector<double>& timesteps : {std::vector<double>{1000, 750, 500, 250}, {900}, {1000, 10}})
      for (const double shift : {1.0, 5.0}) {
        std::vector<double> levels;
        for (const double t : timesteps) levels.push_back(shift * t / 1000 / (1 + (shift - 1) * t / 1000));
        levels.push_back(0);
        const at::Tensor made = renoised({{"timesteps", timesteps}, {"shift", shift}}, noise, chunk).sample;
        ASSERT_EQ(made.sizes(), noise.sizes());
        const at::Tensor dense = made.contiguous();
        for (int64_t i = 0; i < dense.numel(); ++i) {
          const int64_t w = i % W, h = i / W % H, t = i / (W * H) % T, c = i / (W * H * T) % C,
                        b = i / (W * H * T * C);
          const double want =
              by_hand(noise.data_ptr<double>()[i], levels, chunk, kFirstSample + b, t, (c * H + h) * W + w);
          worst = test::worse(worst, std::abs(dense.data_ptr<double>()[i] - want));
        }
      }
  EXPECT_LT(worst, 1e-12);
  RecordProperty("worst", std::to_string(worst * 1e12) + "e-12");
}

// Self-Forcing's warp_denoising_step at shifts 5 and 8, and the four levels that Wan's UniPC visits.
TEST(FlowRenoise, HasThePublishedLevels) {
  const auto levels = [](const json& options) {
    return test::levels_of(test::Instance<kinora_sampler>(kId, options));
  };
  EXPECT_THAT(levels(json::object()),
              testing::Pointwise(testing::DoubleNear(1e-15), {1.0, 0.9375, 2.5 / 3, 0.625, 0.0}));
  EXPECT_THAT(levels({{"shift", 8.0}}),
              testing::Pointwise(testing::DoubleNear(1e-6), {1.0, 0.96, 0.888889, 0.727273, 0.0}));
  EXPECT_THAT(levels({{"convention", "wan"}}),
              testing::Pointwise(testing::DoubleNear(1e-6), {0.9998, 0.937265, 0.833055, 0.624687, 0.0}));
  EXPECT_EQ(levels({{"shift", 1.0}}), (std::vector<double>{1, 0.75, 0.5, 0.25, 0}));
}

TEST(FlowRenoise, NoiseOfAFrameIsTheSameInACallOfThreeAndOfOne) {
  const auto zeros = [](int64_t frames) { return at::zeros({2, 4, frames, 3, 3}, at::kDouble); };
  const Renoised three = renoised(json::object(), zeros(3), 1, true),
                 one = renoised(json::object(), zeros(1), 1, true);
  ASSERT_EQ(three.asked.size(), 4U);
  for (size_t call = 1; call < 4; ++call) {
    EXPECT_GT(one.asked[call].abs().min().item<double>(), 0);
    EXPECT_TRUE(at::equal(three.asked[call].narrow(2, 0, 1), one.asked[call])) << call;
    EXPECT_FALSE(at::equal(three.asked[call].narrow(2, 0, 1), three.asked[call].narrow(2, 1, 1))) << call;
  }
}

// Mean, variance and fourth moment of the noise over chunks; and no two of its chunks, steps and frames are alike.
TEST(FlowRenoise, NoiseOverChunksIsStandardNormal) {
  constexpr int64_t kChunks = 24, kEach = 3 * 8 * 8;
  std::vector<at::Tensor> rows;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    const Renoised made = renoised(json::object(), at::zeros({1, 3, 2, 8, 8}, at::kDouble), chunk, true);
    for (size_t call = 1; call < made.asked.size(); ++call)
      rows.push_back((made.asked[call] / made.visited[call]).transpose(1, 2).reshape({2, kEach}));
  }
  const at::Tensor n = at::cat(rows);
  const auto count = static_cast<double>(n.numel());
  ASSERT_EQ(n.size(0), kChunks * 3 * 2);
  EXPECT_LT(std::abs(n.mean().item<double>()), 4.5 / std::sqrt(count));
  EXPECT_LT(std::abs(n.square().mean().item<double>() - 1), 4.5 * std::sqrt(2 / count));
  EXPECT_LT(std::abs(n.pow(4).mean().item<double>() - 3), 4.5 * std::sqrt(96 / count));
  const at::Tensor correlation = at::matmul(n, n.t()) / kEach;
  const at::Tensor others = correlation - correlation.diag().diag();
  EXPECT_LT(others.abs().max().item<double>(), 6 / std::sqrt(static_cast<double>(kEach)));
}

TEST(FlowRenoise, AsksOnceAStepAndGivesTheLastEstimate) {
  const at::Tensor noise = test::numbers("noise", {1, 2, 2, 3, 3});
  const Renoised made = renoised(json::object(), noise);
  EXPECT_EQ(made.visited, (std::vector<double>{1, 0.9375, made.visited[2], 0.625}));
  const double s = made.visited.back();
  EXPECT_TRUE(at::equal(made.sample, made.asked.back().tanh() * (1 - 0.5 * s) + 0.1 * s));
  EXPECT_TRUE(at::equal(made.asked[0], noise));
}

// Its keys are of the step, so that a start in the middle draws what the whole run draws there.
TEST(FlowRenoise, GoesOnFromTheMiddle) {
  const Renoised whole = renoised(json::object(), test::numbers("noise", {2, 3, 2, 3, 3}));
  const Renoised rest = renoised(json::object(), whole.asked[2], 0, false, 2);
  EXPECT_EQ(rest.asked.size(), 2U);
  EXPECT_TRUE(at::equal(rest.sample, whole.sample));
}

TEST(FlowRenoise, OwesTheCaller) {
  const json eight = {{"timesteps", {1000.0, 900.0, 800.0, 700.0, 600.0, 500.0, 400.0, 300.0}}};
  test::expect_cancellation_leaves_nothing(kId, eight);
  test::expect_error_passes(kId, eight);
  test::expect_deterministic(kId, eight);
}

TEST(FlowRenoise, RefusesListsThatDoNotDescend) {
  EXPECT_THAT(test::refusal(kId, {{"timesteps", json::array()}}), testing::HasSubstr("timesteps is empty"));
  for (const std::vector<double>& wrong :
       {std::vector<double>{1001}, {1000, 0}, {500, 750}, {1000, 500, 500}, {1000, -1}})
    EXPECT_THAT(test::refusal(kId, {{"timesteps", wrong}}),
                testing::HasSubstr("must descend within (0, 1000]"));
  EXPECT_NE(test::refusal(kId, {{"convention", "diffusers"}}), "");
}

}  // namespace
}  // namespace kinora
