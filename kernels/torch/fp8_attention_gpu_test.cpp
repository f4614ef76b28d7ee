// cuDNN's attention in FP8 on a GPU against the emulation.
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "kernels/torch/fp8_attention_testing.hpp"
#include "kinora/error.hpp"

namespace kinora {
namespace {

TEST(Fp8AttentionOnGpu, IsNearTheEmulationInEveryHead) {
  const at::Device device(at::kCUDA, 0);
  if (!core::why_no_gpu().empty()) GTEST_SKIP() << core::why_no_gpu();
  const kinora_cuda_api* const cuda = core::cuda_library(device);
  if (!cuda) GTEST_SKIP() << core::why_no_cuda_library();
  int32_t capability = 0;
  check(cuda->capability(0, &capability));
  if (capability < 90) GTEST_SKIP() << "the GPU is of before Hopper";
  g_host = kinora_core_host();
  core::serve_tensors();
  for (const auto& c : fp8_attention::cases()) {
    gpu::Fp8Attention fp8(cuda);
    fp8_attention::expect_emulation(c, fp8, device,
                                    capability < 100 ? fp8_attention::kHopper : fp8_attention::kBlackwell);
  }
}

}  // namespace
}  // namespace kinora
