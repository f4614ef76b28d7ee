// The training library on libkinora_cuda, on a GPU: replays of its graphs, and copies ahead of the
// computation. The tests of plugins/jobs/training run both without a GPU, on tables of their own.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/device.hpp"
#include "plugins/jobs/training/batch_ahead.hpp"
#include "plugins/jobs/inference/replays.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_gpu().empty()) GTEST_SKIP() << why_no_gpu();
    cuda_ = cuda_library(device_);
    if (!cuda_) GTEST_SKIP() << why_no_cuda_library();
    at::manual_seed(1);
  }
  Tensor drawn(at::IntArrayRef shape) const { return at::randn(shape, at::kDouble).to(device_, at::kFloat); }
  at::Device device_{at::kCUDA, 0};
  const kinora_cuda_api* cuda_ = nullptr;
};

TEST_F(CudaTest, AReplayIsTheFunctionOfItsNewInputs) {
  const at::NoGradGuard off;
  const Tensor w = drawn({64, 64});
  const auto f = [&](uint32_t branch, const NamedTensors& in) {
    return at::gelu(at::linear(in.at("x"), w)).sum(0) + static_cast<double>(branch);
  };
  Replays replays(*cuda_, 0, f);
  for (int call = 0; call < 4; ++call) {
    const NamedTensors in{{"x", drawn({8, 64})}};
    EXPECT_TRUE(
        at::equal(replays(static_cast<uint32_t>(call % 2), in), f(static_cast<uint32_t>(call % 2), in)));
  }
}

// The function waits for the device, which a recording cannot; afterwards the device works as before.
TEST_F(CudaTest, WhatCannotBeRecordedIsComputed) {
  const at::NoGradGuard off;
  const auto f = [](uint32_t, const NamedTensors& in) {
    return in.at("x") * in.at("x").sum().item<double>();
  };
  Replays replays(*cuda_, 0, f);
  for (int call = 0; call < 3; ++call) {
    const NamedTensors in{{"x", drawn({8})}};
    EXPECT_TRUE(at::equal(replays(0, in), f(0, in)));
  }
}

TEST_F(CudaTest, CopiesAheadArriveWhole) {
  const auto make = [](int64_t first, int64_t count) {
    return NamedTensors{{"x", at::arange(first, first + (count << 20), at::kLong)}};
  };
  BatchAhead batches(make, device_, cuda_);
  for (int64_t first = 0; first < 8; ++first) {
    const Tensor x = batches.take(first, 4).at("x");
    const Tensor sum = x.sum();
    batches.prepare(first + 1, 4);
    EXPECT_EQ(sum.item<int64_t>(), make(first, 4).at("x").sum().item<int64_t>());
  }
}

}  // namespace
}  // namespace kinora::core
