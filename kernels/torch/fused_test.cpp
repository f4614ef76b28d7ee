// The nodes in float32 against ATen's operations in float64, which are also their fallback: values,
// every gradient, the same bits with any number of threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/torch/tensors/tensors_api.hpp"
#include "kernels/torch/fused_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace fused;

class Fused : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, Fused, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Fused, EqualsAtenInFloat64WithEveryGradient) {
  const auto want = computed(GetParam(), at::kDouble), got = computed(GetParam(), at::kFloat);
  double worst = 0;
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), want[i].sizes());
    EXPECT_EQ(got[i].scalar_type(), at::kFloat);
    const double most = std::max(want[i].abs().max().item<double>(), 1e-12);
    const double off = (got[i].to(at::kDouble) - want[i]).abs().max().item<double>() / most;
    EXPECT_LT(off, 2e-6) << i;
    worst = test::worse(worst, off);
  }
  std::printf("          worst relative error %.2g\n", worst);
}

TEST_P(Fused, HasTheSameBitsAtAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto want = computed(GetParam(), at::kFloat);
  for (const int threads : {2, 3, 5}) {
    at::set_num_threads(threads);
    const auto got = computed(GetParam(), at::kFloat);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
  }
  at::set_num_threads(before);
}

TEST_P(Fused, KeepsNoGraphIfNoneIsWantedAndKnowsShapesWithoutNumbers) {
  const auto& c = GetParam();
  const auto on = [&](const auto& place, bool grad = false) {
    Tensors in;
    for (const auto& t : c.inputs) in.push_back(place(t).set_requires_grad(grad));
    for (const auto& t : c.fixed) in.push_back(place(t));
    return c.function(in);
  };
  core::serve_tensors();  // libkinora_torch knows layer_norm of a meta tensor
  const auto in_float = [](const Tensor& t) { return t.to(at::kFloat); };
  const auto floats = on(in_float);
  const auto metas = on([](const Tensor& t) { return t.to(at::kFloat).to(at::kMeta); });
  const at::NoGradGuard off;
  const auto quiet = on(in_float, true);
  for (size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(metas[i].sizes(), floats[i].sizes());
    EXPECT_FALSE(quiet[i].requires_grad());
    EXPECT_TRUE(at::equal(quiet[i], floats[i]));
  }
}

// A second derivative would be silently wrong, since the kernels' gradients have no graph.
TEST(FusedGradient, RefusesToBeDifferentiatedAgain) {
  const Tensor x = at::randn({2, 3, 8}).set_requires_grad(true);
  const Tensor first = torch::autograd::grad({kinora::gelu(x).sum()}, {x}, {}, true, true)[0];
  EXPECT_TRUE(first.requires_grad());
  try {
    first.sum().backward();
    FAIL() << "was differentiated";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("gelu has one derivative in float32"));
  }
  const Tensor y = at::randn({2, 3, 8}, at::kDouble).set_requires_grad(true);
  torch::autograd::grad({kinora::gelu(y).sum()}, {y}, {}, true, true)[0].sum().backward();
  EXPECT_TRUE(y.grad().defined());
}

}  // namespace
}  // namespace kinora
