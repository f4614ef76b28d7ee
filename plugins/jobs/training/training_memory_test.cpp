// The memory of what a training keeps for each number of its weights, by the allocator's count.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/context/network.hpp"
#include "plugins/jobs/training/optimizer_testing.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

using test::Metered;

// In float32: 4 bytes for a weight, 4 for its gradient, 8 for AdamW's two moments, 4 for each average. A precision of few
// bits changes none of them: its weights are rounded when they are used.
TEST(TrainingMemory, IsFourBytesForEachWeightGradientMomentAndAverage) {
  const std::map<std::string, std::string> lines{
      {"dit",
       "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 4, "
       "heads = 4, head_size = 64, adaln_lora = 4 }\n"}};
  const test::ScratchRun run(lines);
  Metered::begin();
  Network network(or_throw(test::runtime().registry().open("model/dit")),
                  run.spec("dit").component("model")->options, {});
  const auto weights = static_cast<double>(network.numel());
  ASSERT_GT(weights, 1e6) << "so that small tensors of a model do not count";
  // What came since the last call, in bytes a weight.
  double before = 0;
  const auto more = [&] {
    const auto now = static_cast<double>(Metered::now());
    return (now - std::exchange(before, now)) / weights;
  };
  EXPECT_NEAR(more(), 4, 0.02) << "weights";
  auto& leaves = network.chain().leaves();
  for (auto& leaf : leaves) leaf.tensor.mutable_grad() = at::ones_like(leaf.tensor);
  EXPECT_NEAR(more(), 4, 0.02) << "gradients";
  test::AdamW adam(network.chain().parameters(), leaves);
  Ema average(leaves, 0.99);
  EXPECT_NEAR(more(), 12, 0.02) << "two moments and an average";
  adam.step(1e-3, 1, {&average});
  EXPECT_NEAR(more(), 0, 0.02) << "a step keeps nothing more";
}

}  // namespace
}  // namespace kinora::core
