// A linear layer on a GPU against the emulation, with the kernels' threads run on the processor: everything
// but the launches.
#include "core/torch/tensors/tensors_api.hpp"
#include "plugins/precision/quantised/cuda_on_host.hpp"
#include "plugins/precision/quantised/gpu_linear_testing.hpp"

namespace kinora::quantised {
namespace {

class GpuLinear : public testing::Test {
 protected:
  static void SetUpTestSuite() { core::serve_tensors(); }
};

TEST_F(GpuLinear, HasTheNumbersOfTheEmulation) {
  for (const LinearCase& c : linear_cases()) expect_emulation(c, on_host::library<80>(), at::kCPU, 3e-6);
}

// The arguments that libtorch's product of FP8 numbers takes: on the processor it has one scale for each
// operand.
TEST_F(GpuLinear, GivesTheTensorCoresCodesAndScales) {
  for (const LinearCase& c : linear_cases())
    if (std::string(c.name).starts_with("fp8 tensor"))
      expect_emulation(c, on_host::library<90>(), at::kCPU, 3e-6);
}

// On Blackwell scales are swizzled; a float64 result is of decoded numbers there too.
TEST_F(GpuLinear, DecodesSwizzledScales) {
  for (LinearCase c : linear_cases()) {
    if (std::string(c.name).starts_with("fp8")) continue;
    c.type = at::kDouble;
    expect_emulation(c, on_host::library<100>(), at::kCPU, 3e-6);
  }
}

}  // namespace
}  // namespace kinora::quantised
