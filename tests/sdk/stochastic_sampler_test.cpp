// A sampler of another maker, the SDK's template, whose steps draw noise: the chunks that it makes of a video have
// the distribution of the data and are independent of one another.
#include <cmath>
#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/runtime/call.hpp"
#include "core/torch/network/instances.hpp"
#include "core/torch/open.hpp"
#include "tests/support/plugins.hpp"

namespace kinora::core {
namespace {

constexpr double kMean = 0.7, kStd = 0.4;  // of the data, which is Gaussian
constexpr int64_t kChunks = 10, kValues = 4096;
constexpr double kSigmas = 4.5;  // of a sampling error

// The same for all chunks, so that only the noise of the steps tells them apart.
at::Tensor start() {
  std::mt19937_64 draw(3);
  std::normal_distribution<double> normal;
  std::vector<double> values(kValues);
  for (double& value : values) value = normal(draw);
  return at::tensor(values, at::kDouble).unsqueeze(0);
}

// The posterior mean of N(kMean, kStd^2), the exact denoiser.
at::Tensor denoised(const at::Tensor& x, const at::Tensor& sigma) {
  const at::Tensor share = kStd * kStd / (kStd * kStd + sigma.square().unsqueeze(1));
  return kMean + share * (x - kMean);
}

at::Tensor chunk_of(int64_t chunk) {
  test::plugins();
  offer_tensors(torch_tensors());  // as a program does
  static Registry others = Registry::scan({{.path = KINORA_GEOMETRIC, .origin = "--plugins"}});
  const Component component = or_throw(others.open("sampler/geometric"));
  const Options options = or_throw(Options::make(
      *component.spec, {{"steps", 600}, {"sigma_min", 0.02}, {"sigma_max", 20.0}, {"eta", 1.0}}));
  const SamplerInstance sampler(component, options);
  FunctionDenoiser denoiser(denoised);
  Call call;
  call.seed = 11;
  call.chunk = chunk;
  return sampler.sample(denoiser.abi(), start(), run_of(call)).flatten();
}

TEST(StochasticSampler, OfAnotherMakerHasTheMomentsOfTheDataOverTenChunks) {
  std::vector<at::Tensor> chunks;
  for (int64_t i = 0; i < kChunks; ++i) chunks.push_back(chunk_of(i));
  const at::Tensor all = at::stack(chunks);
  ASSERT_TRUE(at::isfinite(all).all().item<bool>());
  const auto expect_moments = [](const at::Tensor& x, const std::string& of) {
    const double error = kSigmas * kStd / std::sqrt(static_cast<double>(x.numel()));
    EXPECT_NEAR(x.mean().item<double>(), kMean, error + 5e-4) << of;  // it begins at a level of 20, around 0
    EXPECT_NEAR(x.std().item<double>(), kStd, error / std::sqrt(2) + 4e-3)
        << of;  // its steps are of first order
  };
  for (int64_t i = 0; i < kChunks; ++i) expect_moments(all[i], "chunk " + std::to_string(i));
  expect_moments(all, "all chunks");
  const at::Tensor correlation = at::corrcoef(all);
  for (int64_t i = 0; i < kChunks; ++i)
    for (int64_t j = 0; j < i; ++j)
      EXPECT_NEAR(correlation[i][j].item<double>(), 0, kSigmas / std::sqrt(kValues) + 1e-3)
          << "chunks " << i << " and " << j;
}

TEST(StochasticSampler, OfAnotherMakerMakesAChunkAgainToTheBit) {
  EXPECT_TRUE(at::equal(chunk_of(3), chunk_of(3)));
}

}  // namespace
}  // namespace kinora::core
