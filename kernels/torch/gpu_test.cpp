// The nodes on a GPU against ATen's operations in float64: values and every gradient, in float32 and
// bfloat16.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "core/torch/tensors/device.hpp"
#include "kernels/torch/fused_testing.hpp"
#include "kinora/error.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace fused;

const at::Device kGpu{at::kCUDA, 0};

// The class of the nodes as the graph names it.
bool is_kernel(const Tensor& t) {
  return t.grad_fn() && t.grad_fn()->name().find("kinora::gpu::") != std::string::npos;
}

// The program is the host of the kernels' library, as it is of a plugin that contains it.
bool opened() {
  g_host = kinora_core_host();
  return core::why_no_gpu().empty() && core::cuda_library(kGpu) != nullptr;
}
std::string why_not() {
  return core::why_no_gpu().empty() ? core::why_no_cuda_library() : core::why_no_gpu();
}

Case rounded(Case c, at::ScalarType type) {
  for (auto& t : c.inputs) t = t.to(type).to(at::kDouble);
  for (auto& t : c.fixed) t = t.to(at::kFloat).to(at::kDouble);
  return c;
}

class OnGpu : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!opened()) GTEST_SKIP() << why_not();
  }
};
// libtorch looks for CUDA once, at its first use: the library must be open before there are tensors.
INSTANTIATE_TEST_SUITE_P(Cases, OnGpu, testing::ValuesIn((core::why_no_gpu(), cases())),
                         [](const auto& info) { return info.param.name; });

TEST_P(OnGpu, EqualsAtenInFloat64WithEveryGradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(c10::str(type));
    const auto want = computed(rounded(GetParam(), type), at::kDouble),
               got = computed(GetParam(), type, kGpu);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].sizes(), want[i].sizes());
      EXPECT_EQ(got[i].scalar_type(), type);
      const double most = std::max(want[i].abs().max().item<double>(), 1e-12),
                   off = (got[i].to(at::kCPU, at::kDouble) - want[i]).abs().max().item<double>() / most;
      EXPECT_LT(off, type == at::kFloat ? 8e-6 : 2e-2) << i;
    }
  }
}

// All but GELU without a bias, which is one kernel of ATen's too.
TEST_P(OnGpu, IsTheKernelOfTheLibrary) {
  const auto& c = GetParam();
  Tensors in;
  for (const auto& t : c.inputs) in.push_back(t.to(kGpu, at::kFloat).set_requires_grad(true));
  for (const auto& t : c.fixed) in.push_back(t.to(kGpu, at::kFloat));
  const bool atens = c.name == "gelu_exact" || c.name == "gelu_tanh";
  const Tensor out = c.function(in)[0];
  const auto node = out.grad_fn();
  // norm_rope of heads without groups ends with a view.
  const bool below = node && node->num_outputs() > 0 && node->next_edge(0).function &&
                     node->next_edge(0).function->name().find("kinora::gpu::") != std::string::npos;
  EXPECT_EQ(is_kernel(out) || below, !atens) << (node ? node->name() : "no graph");
}

TEST(OnGpuGradient, RefusesToBeDifferentiatedAgain) {
  if (!opened()) GTEST_SKIP() << why_not();
  const Tensor x = at::randn({2, 3, 8}).to(kGpu).set_requires_grad(true),
               gate = at::randn({2, 1, 8}).to(kGpu);
  const Tensor first = torch::autograd::grad({gated(x, x, gate).square().sum()}, {x}, {}, true, true)[0];
  EXPECT_TRUE(first.requires_grad());
  try {
    first.sum().backward();
    FAIL() << "was differentiated";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("gated has one derivative in float32"));
  }
}

}  // namespace
}  // namespace kinora
