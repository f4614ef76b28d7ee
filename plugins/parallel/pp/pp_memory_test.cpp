// Memory of a pipeline's rank during a step, in bytes of libtorch's allocator: the graphs of as many
// microbatches as schedule.hpp states.
#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;

constexpr int64_t kBlocks = 32, kTokens = 1024, kSize = 32;

// Peak memory of a step, in flow tensors, for a model whose blocks are a product and a tanh
// and whose weights are negligible.
double most(const Rank& me, const std::string& schedule, int64_t micro) {
  test::StrategyChain model(me, "[{ use = 'pp', schedule = '" + schedule + "' }]");
  const auto weights = model.matrices({kBlocks, {kSize, kSize}});
  std::map<int64_t, Tensor> losses;
  const auto forward = [&](kinora_pass pass) {
    pass.struct_size = sizeof pass;
    model.chain.begin(pass);
    kinora_seq seq = 0;
    Tensor x = model.ctx.sequence(at::ones({1, kTokens, kSize}), 1, 1, kTokens, seq);
    try {
      for (int64_t b = 0; b < kBlocks; ++b)
        x = model.ctx.block(b, {x}, {}, 1, [&, b](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{model.ctx.linear(in[0], weights[static_cast<size_t>(b)], 0, seq).tanh()};
        })[0];
    } catch (const Stop&) {
      return false;
    }
    losses[pass.microbatch] = x.sum();
    return true;
  };
  const auto backward = [&](const kinora_pass& pass) { losses.extract(pass.microbatch).mapped().backward(); };
  const auto step = [&](int64_t count) { model.strategies.step({count, forward, backward}); };
  step(me.size);  // gradients of the weights exist from here on
  test::Metered::begin();
  step(micro);
  return static_cast<double>(test::Metered::most()) /
         static_cast<double>(kTokens * kSize * static_cast<int64_t>(sizeof(float)));
}

// A graph of n blocks keeps its input and each block's output, and, except in the last stage, room for
// the gradient of the sent result. In addition to the graphs there are a block's current computation, and a
// message.
constexpr double kBeside = 6, kLittle = 0.1;

struct Schedule {
  const char* name;
  int64_t stages_a_rank;
  int64_t (*graphs)(int64_t P, int64_t r, int64_t m);
};

TEST(PipelineMemory, ARankHoldsTheGraphsOfItsSchedule) {
  const Schedule all[] = {{"gpipe", 1, [](int64_t, int64_t, int64_t m) { return m; }},
                          {"1f1b", 1, [](int64_t P, int64_t r, int64_t m) { return std::min(m, P - r); }},
                          {"interleaved", 2, [](int64_t P, int64_t r, int64_t m) {
                             return std::min(2 * m, 2 * (P - r - 1) + P + 1);
                           }}};
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      for (const auto& s : all)
        for (const int64_t m : {4, 8}) {
          const int64_t graphs = s.graphs(P, me.rank, m), n = kBlocks / (P * s.stages_a_rank);
          const double held = most(me, s.name, m);
          EXPECT_GE(held, static_cast<double>(graphs * (n + 1)) - kLittle) << s.name << " " << m;
          EXPECT_LE(held, static_cast<double>(graphs * (n + 2)) + kBeside) << s.name << " " << m;
        }
    });
}

TEST(PipelineMemory, GrowsWithTheMicrobatchesUnderGPipeOnly) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const double graph = static_cast<double>(kBlocks / P + 1 + (me.rank + 1 < P));
      EXPECT_NEAR(most(me, "gpipe", 12) - most(me, "gpipe", 8), 4 * graph, kLittle);
      EXPECT_NEAR(most(me, "1f1b", 12), most(me, "1f1b", 8), kLittle);
      EXPECT_NEAR(most(me, "interleaved", 12), most(me, "interleaved", 8), kLittle);
    });
}

}  // namespace
}  // namespace kinora
