// The merge of attention and AdamW of libkinora_cuda on a GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/device.hpp"
#include "kernels/cuda/adamw_range.hpp"
#include "kinora/aten.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

class PassesOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_gpu().empty()) GTEST_SKIP() << why_no_gpu();
    cuda_ = cuda_library(device_);
    if (!cuda_) GTEST_SKIP() << why_no_cuda_library();
    at::manual_seed(1);
  }
  at::Device device_{at::kCUDA, 0};
  const kinora_cuda_api* cuda_ = nullptr;
};

TEST_F(PassesOnGpu, MergeEqualsTheFormulaInFloat64) {
  for (const auto& [S, H, d] : {std::array<int64_t, 3>{300, 3, 128}, {7, 5, 10}, {1, 1, 1}, {4096, 12, 64}}) {
    SCOPED_TRACE(c10::str(S, " ", H, " ", d));
    const Tensor whole = at::randn({2, S + 3, H, d}).to(device_),
                 sums = (8 * at::randn({2, S + 3, H})).to(device_), out = whole.narrow(1, 1, S),
                 sum = sums.narrow(1, 1, S), more = at::randn({2, H, S, d}).to(device_).transpose(1, 2),
                 more_sum = (8 * at::randn({2, H, S})).to(device_).transpose(1, 2);
    more_sum.select(1, 0).fill_(-1e30);
    const auto exact = [](const Tensor& t) { return t.to(at::kCPU, at::kDouble, false, true); };
    const Tensor x = exact(out), s = exact(sum), y = exact(more), t = exact(more_sum),
                 first = exact(whole.select(1, 0)), weight = at::sigmoid(t - s).unsqueeze(3),
                 want = x + weight * (y - x), want_sum = at::logaddexp(s, t);
    check(cuda_->merge_attention(handle(out), handle(sum), handle(more), handle(more_sum)));
    EXPECT_LT((exact(out) - want).abs().max().item<double>(), 4e-6);
    EXPECT_LT((exact(sum) - want_sum).abs().max().item<double>(), 4e-6);
    EXPECT_TRUE(exact(whole.select(1, 0)).equal(first)) << "a row outside was changed";
  }
}

TEST_F(PassesOnGpu, AdamWHasTheBitsOfItsThreadsOnTheProcessor) {
  for (const int64_t count : {1, 1027, 100003})
    for (const int64_t skip : {0, 1})
      for (const int averages : {0, 2}) {
        SCOPED_TRACE(c10::str(count, " from ", skip, ", ", averages, " averages"));
        std::vector<Tensor> before, there;  // weight, gradient, moments, averages
        for (int i = 0; i < 4 + averages; ++i) {
          before.push_back(i == 3 ? at::rand({count + skip}).mul_(1e-4) : at::randn({count + skip}));
          there.push_back(before.back().to(device_).narrow(0, skip, count));
        }
        std::vector<kinora_tensor> to;
        for (int i = 4; i < 4 + averages; ++i) to.push_back(handle(there[static_cast<size_t>(i)]));
        const double shares[] = {0.01, 0.2};
        kinora_cuda_adamw n{};
        n.struct_size = sizeof n;
        n.n_averages = static_cast<uint32_t>(averages);
        n.gradient_factor = 0.37, n.keep = 1 - 3e-4, n.beta1 = 0.9, n.beta2 = 0.99, n.root2 = 3.1,
        n.eps = 1e-8, n.step = 7e-3;
        n.averages = to.data(), n.shares = shares;
        check(cuda_->adamw(handle(there[0]), handle(there[1]), handle(there[2]), handle(there[3]), &n));
        const auto data = [&](size_t i) { return before[i].data_ptr<float>() + skip; };
        cuda::AdamWRange r{data(0), data(1), data(2), data(3), count, averages, {}, {}};
        for (int k = 0; k < averages; ++k)
          r.a[k] = data(static_cast<size_t>(4 + k)), r.share[k] = static_cast<float>(shares[k]);
        const auto as = [](double x) { return static_cast<float>(x); };
        const cuda::AdamWNumbers numbers{as(n.gradient_factor), as(n.keep), as(n.beta1), as(n.beta2),
                                         as(n.root2),           as(n.eps),  as(n.step)};
        for (int64_t block = 0; block < cuda::adamw_blocks(r, 1); ++block)
          for (int thread = 0; thread < cuda::kAdamWThreads; ++thread)
            cuda::adamw_thread<1>(r, numbers, block, thread);
        for (size_t i = 0; i < before.size(); ++i)
          EXPECT_TRUE(there[i].cpu().equal(before[i].narrow(0, skip, count))) << "tensor " << i;
      }
}

}  // namespace
}  // namespace kinora::core
