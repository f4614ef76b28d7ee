// Memory of a rank at stage 3, in bytes of libtorch's allocator: its shards, and the units in
// use.
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/support/metered.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
using Tensors = std::vector<Tensor>;

constexpr int64_t kSize = 256, kUnit = kSize * kSize * static_cast<int64_t>(sizeof(float)),
                  kLittle = kUnit / 8;

struct Bytes {
  int64_t start, no_grad, forward, after_forward, backward, after;
};

// For a model whose blocks are one matrix each, and whose data is negligible.
Bytes bytes(const Rank& me, const std::string& parallel, int64_t blocks) {
  test::Metered::begin();
  test::StrategyChain model(me, parallel);
  const auto weights = model.matrices({static_cast<size_t>(blocks), {kSize, kSize}});
  Bytes out{};
  out.start = test::Metered::take_most();
  const auto forward = [&](uint32_t no_grad) {
    model.chain.begin({sizeof(kinora_pass), 0, no_grad, 0, 0, 0, 0, 1});
    kinora_seq seq = 0;
    Tensor x = model.ctx.sequence(at::ones({1, 1, kSize}), 1, 1, 1, seq);
    for (int64_t b = 0; b < blocks; ++b)
      x = model.ctx.block(b, {x}, {}, 1, [&, b](const Tensors& in) {
        return Tensors{model.ctx.linear(in[0], weights[static_cast<size_t>(b)], 0, seq).tanh()};
      })[0];
    return x.sum();
  };
  {
    const at::NoGradGuard off;
    forward(1);
  }
  out.no_grad = test::Metered::take_most();
  Tensor loss = forward(0);
  out.forward = test::Metered::take_most();
  out.after_forward = test::Metered::now();
  loss.backward();
  loss = Tensor();
  out.backward = test::Metered::take_most();
  model.chain.reduce();
  out.after = test::Metered::now();
  return out;
}

TEST(FsdpMemory, ARankHoldsItsShardsAndTheUnitsInUse) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      constexpr int64_t kBlocks = 16;
      const int64_t shards = kBlocks * kUnit / me.size;
      for (const int64_t prefetch : {0, 1, 2}) {
        const std::string use = "[{ use = 'fsdp', prefetch = " + std::to_string(prefetch) + " }]";
        const Bytes b = bytes(me, use, kBlocks);
        // Gloo keeps a copy of each running gather.
        const int64_t units = (1 + prefetch + std::max<int64_t>(prefetch, 1)) * kUnit;
        EXPECT_LE(b.start, shards + kUnit + kLittle) << "drawn one parameter at a time";
        for (const int64_t peak : {b.no_grad, b.forward}) {
          EXPECT_LE(peak, shards + units + kLittle) << prefetch;
          EXPECT_GE(peak, shards + (1 + prefetch) * kUnit) << "a bound that is far away proves nothing";
        }
        EXPECT_LE(b.after_forward, shards + kLittle) << "a graph keeps no parameters";
        EXPECT_LE(b.after, 2 * shards + kLittle) << "shards and their gradients";
      }
    });
}

// All parameters from the first forward on, and at stage 1 all gradients, at stage 2 only their shards.
TEST(FsdpMemory, TheFirstStagesKeepWhatTheyDoNotCut) {
  test::on_ranks(2, [](const Rank& me) {
    constexpr int64_t kBlocks = 16, all = kBlocks * kUnit;
    const int64_t shards = all / me.size;
    for (const int64_t stage : {1, 2}) {
      const Bytes b = bytes(me, "[{ use = 'fsdp', stage = " + std::to_string(stage) + " }]", kBlocks);
      EXPECT_GE(b.after_forward, shards + all) << "stage " << stage;
      EXPECT_LE(b.after_forward, shards + all + kLittle) << "stage " << stage;
      const int64_t gradients = stage == 1 ? all : shards, beside = b.backward - shards - all - gradients;
      EXPECT_GE(beside, 0) << "stage " << stage;
      EXPECT_LE(beside, 4 * kUnit) << "stage " << stage << ": a unit's gradients on their way";
    }
  });
}

TEST(FsdpMemory, ABackwardHoldsNoMoreForMoreBlocks) {
  test::on_ranks(2, [](const Rank& me) {
    // The unit in use, the next one and Gloo's copy of its gather; a gradient, Gloo's copy of it, and its
    // part.
    constexpr int64_t most = 5 * kUnit + kUnit / 2 + kLittle;
    for (const int64_t blocks : {8, 16, 32})
      EXPECT_LE(bytes(me, "['fsdp']", blocks).backward - 2 * blocks * kUnit / me.size, most) << blocks;
  });
}

}  // namespace
}  // namespace kinora
