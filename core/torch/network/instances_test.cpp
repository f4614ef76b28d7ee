// Results of a component are checked before use, and errors name the component.
#include "core/torch/network/instances.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/apply/mixture.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

TEST(LossInstance, GivesOneNumberASample) {
  const auto component = or_throw(test::plugins().open("loss/edm"));
  const LossInstance loss(component, or_throw(Options::make(*component.spec, json::object())));
  EXPECT_EQ(loss.of_samples({{"loss", at::ones({3})}}, 3).sum().item<float>(), 3);
  EXPECT_THAT(test::refusal([&] { loss.of_samples({}, 3); }),
              HasSubstr("loss/edm: evaluate returned no 'loss'"));
  for (const at::Tensor& wrong : {at::ones({3, 2}), at::ones({}), at::ones({2}), at::ones({3}, at::kLong)})
    EXPECT_THAT(test::refusal([&] {
                  loss.of_samples({{"loss", wrong}}, 3);
                }),
                HasSubstr("loss/edm: output 'loss': expected a float [3]"));
}

// Samplers that return invalid results.
at::Tensor (*made)(const at::Tensor&) = nullptr;
const kinora_sampler kTable = {
    sizeof(kinora_sampler),
    0,
    [](const kinora_host*, const kinora_options*) -> void* { return &made; },
    [](void*) {},
    [](void*, kinora_tensor* out) { return guard([&] { *out = give(at::ones({2}, at::kDouble)); }); },
    [](void*, const kinora_denoiser*, kinora_tensor noise, const kinora_run*, kinora_tensor* out) {
      return guard([&] {
        const at::Tensor x = made(borrow<at::Tensor>(noise));
        *out = x.defined() ? give(x) : nullptr;
      });
    }};

TEST(SamplerInstance, GivesASampleOfTheNoisesShape) {
  test::plugins();
  ComponentSpec spec;
  spec.kind = "sampler";
  spec.id = "sampler/wrong";
  const SamplerInstance sampler({&spec, nullptr, &kTable}, Options());
  Mixture mixture(at::zeros({1, 2}), at::ones({1}), at::ones({1}));
  const auto sample = [&] {
    return sampler.sample(mixture.abi(), at::ones({3, 2}, at::kDouble), kinora_run{});
  };
  made = [](const at::Tensor& noise) { return noise * 2; };
  EXPECT_EQ(sample().sum().item<double>(), 12);
  made = [](const at::Tensor& noise) { return noise.narrow(0, 0, 1); };
  EXPECT_THAT(test::refusal(sample),
              HasSubstr("sampler/wrong: its sample is Double [1, 2], the noise [3, 2]"));
  made = [](const at::Tensor& noise) { return noise.to(at::kLong); };
  EXPECT_THAT(test::refusal(sample), HasSubstr("sampler/wrong: its sample is Long"));
  made = [](const at::Tensor&) { return at::Tensor(); };
  EXPECT_THAT(test::refusal(sample), HasSubstr("sampler/wrong: sample returned no tensor"));
  made = [](const at::Tensor&) -> at::Tensor { throw Error(KINORA_ERROR_DATA, "no idea"); };
  EXPECT_EQ(test::refusal(sample), "sampler/wrong: no idea");
}

TEST(Mix, TheTwoUnitsAreOneProcess) {
  const at::Tensor x0 = at::randn({3, 2, 4, 5, 5}, at::kDouble), n = at::randn_like(x0);
  for (const at::Tensor& sigma :
       {at::tensor({0.01, 0.7, 90.0}, at::kDouble), at::rand({3, 4}, at::kDouble) * 5}) {
    const at::Tensor s = sigma / (1 + sigma), added = x0 + scale_for(sigma, x0) * n,
                     blended = (1 - scale_for(s, x0)) * x0 + scale_for(s, x0) * n;
    const Mixed there = remixed({added, sigma}, KINORA_MIX_VARIANCE_EXPLODING, KINORA_MIX_RECTIFIED_FLOW);
    EXPECT_TRUE(at::allclose(there.x, blended, 1e-13, 1e-13));
    EXPECT_TRUE(at::allclose(there.sigma, s, 1e-13, 1e-13));
    const Mixed back = remixed({blended, s}, KINORA_MIX_RECTIFIED_FLOW, KINORA_MIX_VARIANCE_EXPLODING);
    EXPECT_TRUE(at::allclose(back.x, added, 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(back.sigma, sigma, 1e-12, 1e-12));
  }
}

TEST(Mix, PureNoiseIsAVeryHighLevel) {
  const at::Tensor n = at::randn({2, 3}, at::kDouble);
  const Mixed added =
      remixed({n, at::ones({2}, at::kDouble)}, KINORA_MIX_RECTIFIED_FLOW, KINORA_MIX_VARIANCE_EXPLODING);
  EXPECT_TRUE(at::allclose(added.x / scale_for(added.sigma, n), n, 1e-5, 1e-5));
  EXPECT_TRUE(added.x.isfinite().all().item<bool>());
}

TEST(Mix, ALevelThatDoesNotFitIsRefused) {
  EXPECT_THROW(scale_for(at::ones({2}), at::ones({3, 2})), Error);
  EXPECT_THROW(scale_for(at::ones({2, 4}), at::ones({2, 3, 5, 1, 1})), Error);
}

}  // namespace
}  // namespace kinora::core
