// A linear layer of few bits on a GPU against the processor's emulation.
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "plugins/precision/quantised/gpu_linear_testing.hpp"

namespace kinora::quantised {
namespace {

class LowLinearOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!core::why_no_gpu().empty()) GTEST_SKIP() << core::why_no_gpu();
    cuda_ = core::cuda_library(device_);
    if (!cuda_) GTEST_SKIP() << core::why_no_cuda_library();
    core::serve_tensors();
    int32_t capability = 0;
    check(cuda_->capability(0, &capability));
    blackwell_ = capability >= 100;
  }
  at::Device device_{at::kCUDA, 0};
  const kinora_cuda_api* cuda_ = nullptr;
  bool blackwell_ = false;
};

// Hopper's FP8 products keep about 14 bits while they sum (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
TEST_F(LowLinearOnGpu, HasTheNumbersOfTheEmulation) {
  for (const LinearCase& c : linear_cases()) {
    const std::string name = c.name;
    const bool tensor_cores = name.starts_with("fp8 tensor") ||
                              (blackwell_ && (name.starts_with("mxfp8") || name.starts_with("nvfp4")));
    expect_emulation(c, *cuda_, device_, tensor_cores ? 1e-3 : 5e-6);
  }
}

}  // namespace
}  // namespace kinora::quantised
