#include "core/torch/context/mix.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

TEST(Mix, TheTwoUnitsAreOneProcess) {
  const at::Tensor x0 = at::randn({3, 2, 4, 5, 5}, at::kDouble), n = at::randn_like(x0);
  for (const at::Tensor& sigma :
       {at::tensor({0.01, 0.7, 90.0}, at::kDouble), at::rand({3, 4}, at::kDouble) * 5}) {
    const at::Tensor s = sigma / (1 + sigma), added = x0 + scale_for(sigma, x0) * n,
                     blended = (1 - scale_for(s, x0)) * x0 + scale_for(s, x0) * n;
    const Mixed there = remixed({added, sigma}, KINORA_MIX_ADD, KINORA_MIX_BLEND);
    EXPECT_TRUE(at::allclose(there.x, blended, 1e-13, 1e-13));
    EXPECT_TRUE(at::allclose(there.sigma, s, 1e-13, 1e-13));
    const Mixed back = remixed({blended, s}, KINORA_MIX_BLEND, KINORA_MIX_ADD);
    EXPECT_TRUE(at::allclose(back.x, added, 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(back.sigma, sigma, 1e-12, 1e-12));
  }
}

TEST(Mix, PureNoiseIsAVeryHighLevel) {
  const at::Tensor n = at::randn({2, 3}, at::kDouble);
  const Mixed added = remixed({n, at::ones({2}, at::kDouble)}, KINORA_MIX_BLEND, KINORA_MIX_ADD);
  EXPECT_TRUE(at::allclose(added.x / scale_for(added.sigma, n), n, 1e-5, 1e-5));
  EXPECT_TRUE(added.x.isfinite().all().item<bool>());
}

TEST(Mix, ALevelThatDoesNotFitIsRefused) {
  EXPECT_THROW(scale_for(at::ones({2}), at::ones({3, 2})), Error);
  EXPECT_THROW(scale_for(at::ones({2, 4}), at::ones({2, 3, 5, 1, 1})), Error);
}

}  // namespace
}  // namespace kinora::core
