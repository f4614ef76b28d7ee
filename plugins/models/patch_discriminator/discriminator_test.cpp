// model/patch-discriminator against the same layers of torch.nn.
#include <gmock/gmock.h>

#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"

namespace kinora::patch_discriminator {
namespace {

using at::Tensor;
constexpr const char* kFile = "patch_discriminator.safetensors";
using Critic = test::OnChain<kinora_model>;
constexpr const char* kId = "model/patch-discriminator";

class PatchDiscriminator : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType, bool>> {};

TEST_P(PatchDiscriminator, EqualsTorchWithItsGradients) {
  const auto [name, dtype, again] = GetParam();
  const test::Oracle oracle(kFile, name);
  const test::Recompute recompute;
  Critic critic(kId, oracle.options, dtype,
                again ? std::vector<const kinora_link*>{recompute.get()} : std::vector<const kinora_link*>{});
  critic.fill(1.2);
  const double bound = dtype == at::kDouble ? 1e-10 : 1e-5;
  Tensor video = test::numbers("video", oracle.exact("grad.video").sizes()).to(dtype).requires_grad_();
  const Tensor logits = critic.forward({{"video", video}})[0];
  EXPECT_LT(test::difference(logits, oracle.exact("logits")), bound);
  (logits * test::numbers("grad.logits", logits.sizes()).to(dtype)).sum().backward();
  EXPECT_LT(test::difference(video.grad(), oracle.exact("grad.video")), bound);
  size_t compared = 0;
  for (size_t i = 0; i < critic.chain().parameters().size(); ++i) {
    const auto& p = critic.chain().parameters()[i].name;
    if (!oracle.has("grad.param." + p)) continue;
    const Tensor& gradient = critic.chain().leaves()[i].tensor.grad();
    EXPECT_LT(test::difference(gradient, oracle.exact("grad.param." + p)), 3 * bound) << p;
    ++compared;
  }
  EXPECT_EQ(compared, critic.chain().parameters().size());
}
INSTANTIATE_TEST_SUITE_P(Cases, PatchDiscriminator,
                         ::testing::Combine(::testing::Values("spectral", "group", "none", "one", "flat"),
                                            ::testing::Values(at::kDouble, at::kFloat), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) ? "Recomputed" : "");
                         });

TEST(PatchDiscriminatorErrors, SayWhatDoesNotFit) {
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  Critic critic(kId, core::json{{"channels", 4}}, at::kFloat);
  EXPECT_THAT(message([&] {
                critic.forward({{"video", at::zeros({1, 3, 5, 16, 24})}});
              }),
              testing::HasSubstr("24 x 16 pixels; 3 layers need 24 or more"));
  EXPECT_THAT(message([] {
                Critic(kId, core::json{{"channels", 10}, {"norm", "group"}}, at::kFloat);
              }),
              testing::HasSubstr("20 channels"));
}

}  // namespace
}  // namespace kinora::patch_discriminator
