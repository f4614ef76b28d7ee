// Memory that a rank keeps from a forward for its backward: a layer's share for each of its tokens, by
// formula 1 / ranks.
#include <cstdlib>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/parallelism.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

using test::Rank;

struct Share {
  std::string parallel;
  double own = 0, whole = 0;
  std::string model = "dit";
  core::Frames rule = {};
  std::string precision = "fp32";
};

// Bytes held by the graph of a forward.
int64_t bytes_of_graph(const Rank& me, const Share& s, int64_t layers, int64_t frames) {
  me.launched();
  const test::ScratchRun run(
      {{"dit", "precision = " + (s.precision[0] == '{' ? s.precision : "'" + s.precision + "'") +
                   "\nparallel = " + s.parallel + "\nmodel = { use = '" + s.model +
                   "', in_channels = 2, out_channels = 2, text_size = 12, heads = 4, "
                   "head_size = 12, adaln_lora = 4, layers = " +
                   std::to_string(layers) + " }"}});
  core::JobContext context = run.context("dit", false);
  const core::Parallelism parallel(context);
  const core::Component model = context.open_slot("model");
  core::ChainOptions options;
  options.frames = s.rule;
  core::Model network(model, context.spec().component("model")->options, options, parallel.links());
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  network.chain().begin(pass);
  const core::NamedTensors in = {{"latent", at::ones({1, 2, frames, 16, 16})},
                                 {"timestep", at::full({1}, 0.5)},
                                 {"text", at::ones({1, 4, 12})}};
  test::Metered::begin();
  const at::Tensor out = network.forward(in).at(0);
  return test::Metered::now();
}

// Bytes that a layer keeps for its tokens, in tensors of the stream's width: measured with four more layers
// of eight more frames. Memory that exists once (the latent, embeddings) cancels.
double kept(const Rank& me, const Share& s) {
  const auto of = [&](int64_t layers, int64_t frames) {
    return static_cast<double>(bytes_of_graph(me, s, layers, frames));
  };
  constexpr double kUnit = 4 * (8 * 8 * 8) * (4 * 12 * sizeof(float));
  return (of(6, 16) - of(2, 16) - of(6, 8) + of(2, 8)) / kUnit;
}

// In units of a tensor of the stream's width for all tokens, c of them in one process: on each of P ranks (c
// + own) / P + whole. Besides its share, a rank keeps for each layer:
// tp             nothing: of the inputs of COLUMN weights only its own tokens; in bf16 three tensors as they were
//                  before they were rounded to half their bytes
//   cp-ulysses     attention's queries and result, in heads and in tokens
// cp-ring        attention's result, for its blocks
// stdit-hybrid   the same, for its attention over all tokens
TEST(ActivationMemory, FallsAsTheFormulasSay) {
  const std::vector<Share> shares = {{"['tp']", 0, 0},
                                     {"['tp']", 1.5, 0, "dit", {}, "bf16"},
                                     {"['cp-ulysses']", 2, 0},
                                     {"['cp-ring']", 1, 0},
                                     {"['stdit-hybrid']", 1, 0, "stdit"},
                                     {"['balanced-sp']", 0, 0, "dit", {.streams = 2}}};
  for (const int size : {2, 4})
    test::on_ranks(
        size,
        [&](const Rank& me) {
          for (const auto& s : shares) {
            const double here = kept(me, s),
                         alone = kept({0, 1, me.folder, me.port},
                                      {"['single']", 0, 0, s.model, s.rule, s.precision}),
                         expected = (alone + s.own) / me.size + s.whole;
            EXPECT_LT(here, 1.02 * expected) << s.parallel << " on " << me.size << " ranks, alone " << alone;
            EXPECT_GT(here, 0.92 * expected) << s.parallel << " on " << me.size << " ranks, alone " << alone;
          }
        },
        120);
}

// The operands that the gradients of weights need: 2 bytes a number in bfloat16; in NVFP4 half a byte, and an
// E4M3 scale for 16. A layer has six linear layers of tokens, whose inputs have nine times the width.
TEST(ActivationMemory, OfLinearLayersFallsWithTheirBits) {
  test::on_ranks(1, [](const Rank& me) {
    const auto of = [&](const std::string& precision) {
      return kept(me, {"['single']", 0, 0, "dit", {}, precision});
    };
    const double fewer = of("bf16") - of("{ use = 'nvfp4', high = ['embedding', 'head'] }");
    EXPECT_NEAR(fewer, 9 * (2 - (0.5 + 1.0 / 16)) / sizeof(float), 0.02);
  });
}

}  // namespace
}  // namespace kinora
