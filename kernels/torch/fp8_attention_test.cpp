// The scales, casts and layout around cuDNN's attention in FP8, with its graphs computed on the processor.
#include "core/torch/tensors/tensors_api.hpp"
#include "kernels/torch/fp8_attention_on_host.hpp"
#include "kernels/torch/fp8_attention_testing.hpp"

namespace kinora {
namespace {

class Fp8Attention : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    g_host = kinora_core_host();
    core::serve_tensors();
  }
};

TEST_F(Fp8Attention, IsNearTheEmulationInEveryHead) {
  for (const auto& c : fp8_attention::cases()) {
    gpu::Fp8Attention blackwell(&gpu::on_host::library<true>()), hopper(&gpu::on_host::library<false>());
    fp8_attention::expect_emulation(c, blackwell, at::kCPU, fp8_attention::kBlackwell);
    fp8_attention::expect_emulation(c, hopper, at::kCPU, fp8_attention::kHopper);
  }
}

TEST_F(Fp8Attention, LeavesWhatCudnnRefusesToTheCaller) {
  gpu::Fp8Attention fp8(&gpu::on_host::library<true>());
  const auto x = at::randn({1, 4, 1, 256}), one = at::ones({1, 1, 1, 1});
  gpu::on_host::asked = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(fp8.attend(x, x, x, {one, one, one}, 1).defined());
  EXPECT_EQ(gpu::on_host::asked, 1);
  const auto fits = x.narrow(3, 0, 64);
  EXPECT_TRUE(fp8.attend(fits, fits, fits, {one, one, one}, 1).defined());
}

// A head of zeros, and one whose gradient is zero.
TEST_F(Fp8Attention, GivesFiniteNumbersForZeros) {
  gpu::Fp8Attention fp8(&gpu::on_host::library<true>());
  auto x = at::randn({1, 8, 2, 16});
  x.select(2, 1).zero_();
  const auto one = at::ones({1, 1, 2, 1});
  x.set_requires_grad(true);
  fp8.attend(x, x, x, {one, one, one}, 1).select(2, 1).sum().backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace kinora
