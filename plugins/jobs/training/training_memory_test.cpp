// The memory of what a training keeps for each number of its weights, by the allocator's count.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/network/model.hpp"
#include "plugins/jobs/training/optimizer_testing.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

using test::Metered;

// In float32: 4 bytes for a weight, 4 for its gradient, 8 for AdamW's two moments, 4 for each average. A
// precision of few bits changes none of them: its weights are rounded when they are used.
TEST(TrainingMemory, IsFourBytesForEachWeightGradientMomentAndAverage) {
  const std::map<std::string, std::string> lines{
      {"dit",
       "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 4, "
       "heads = 4, head_size = 64, adaln_lora = 4 }\n"}};
  const test::ScratchRun run(lines);
  Metered::begin();
  Model network(or_throw(test::runtime().registry().open("model/dit")),
                run.spec("dit").component("model")->options, {});
  const auto weights = static_cast<double>(network.numel());
  ASSERT_GT(weights, 1e6) << "so that small tensors of a model do not count";
  // Memory that was added since the last call, in bytes per weight.
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

// With LoRA, 4 bytes for a frozen weight and nothing else: no average, no moment, no gradient.
TEST(TrainingMemory, OfAFrozenWeightIsTheWeight) {
  const test::ScratchRun run(std::map<std::string, std::string>{
      {"dit",
       "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 4, "
       "heads = 4, head_size = 64, adaln_lora = 4 }\n"}});
  Metered::begin();
  ChainOptions chain;
  chain.lora = LoraOptions{.rank = 16, .alpha = 16, .targets = {"linear_qkv", "linear_fc1"}};
  Model network(or_throw(test::runtime().registry().open("model/dit")),
                run.spec("dit").component("model")->options, chain);
  auto& leaves = network.chain().leaves();
  double frozen = 0, trained = 0;
  for (const auto& leaf : leaves)
    (leaf.frozen ? frozen : trained) += static_cast<double>(leaf.tensor.numel());
  ASSERT_GT(frozen, 1e6);
  ASSERT_GT(trained, 1e4);
  const auto above_weights = [&] { return static_cast<double>(Metered::now()) - 4 * (frozen + trained); };
  const double small = above_weights();  // tables and the like
  EXPECT_LT(std::abs(small), 0.01 * frozen);
  const auto has = [&](double bytes, const char* what) {
    EXPECT_NEAR((above_weights() - small) / trained, bytes, 0.1) << what;
  };
  for (auto& leaf : leaves)
    if (!leaf.frozen) leaf.tensor.mutable_grad() = at::ones_like(leaf.tensor);
  test::AdamW adam(network.chain().parameters(), leaves);
  has(4 + 8, "with its weight 16 bytes: gradient and two moments");
  Ema average(leaves, 0.99);
  has(4 + 8 + 4, "and an average");
  Metered::take_most();
  adam.step(1e-3, 1, {&average});
  average.swap(leaves);
  has(4 + 8 + 4, "a step and a swap keep nothing more");
  EXPECT_LT(static_cast<double>(Metered::take_most()), 4 * (frozen + trained) + small + 24 * trained)
      << "nor do they need room for frozen weights meanwhile";
}

}  // namespace
}  // namespace kinora::core
