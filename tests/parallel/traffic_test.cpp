// Bytes that a rank sends in one forward and backward, exactly as the formulas of the strategies' headers
// say.
#include <cstdlib>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/context/parallelism.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

using test::Rank;

// The model of every case, in float64: L layers of self-attention, cross-attention and MLP, width D = H d, C
// channels of an output's token; B videos of N tokens, a multiple of everything.
constexpr int64_t L = 2, H = 4, d = 12, D = H * d, C = 8, B = 2, N = 4 * 4 * 4, e = 8;

// Bytes by operation, of the groups of one axis.
using Sent = std::map<std::string, int64_t>;

Sent sent(const Rank& me, const std::string& parallel, const std::string& model = "dit") {
  me.launched();
  const test::ScratchRun run(
      {{"dit", "precision = 'fp64'\nparallel = " + parallel + "\nmodel = { use = '" + model +
                   "', in_channels = 2, out_channels = 2, text_size = 12, heads = 4, head_size = 12, "
                   "adaln_lora = 4, layers = 2 }"}});
  core::JobContext context = run.context("dit", false);
  const core::Parallelism parallelism(context);
  const core::Component component = context.open_slot("model");
  core::Network network(component, context.spec().component("model")->options, {.dtype = at::kDouble},
                        parallelism.links());
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  network.chain().begin(pass);
  const auto before = parallelism.traffic().rows();
  network
      .forward({{"latent", at::ones({B, 2, 4, 8, 8}, at::kDouble)},
                {"timestep", at::full({B}, 0.5, at::kDouble)},
                {"text", at::ones({B, 4, 12}, at::kDouble)}})
      .at(0)
      .sum()
      .backward();
  Sent out;
  for (const auto& [key, row] : parallelism.traffic().rows()) {
    const auto earlier = before.find(key);
    const int64_t bytes = row.sent - (earlier == before.end() ? 0 : earlier->second.sent);
    if (bytes > 0) out[key.second] += bytes;
  }
  return out;
}

TEST(Traffic, OfUlyssesIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const Sent s = sent(me, "['cp-ulysses']");
      EXPECT_EQ(s.at("exchange"), 2 * L * (P - 1) * B * (N / P) * 4 * (H / P) * d * e);
      EXPECT_EQ(s.at("gather"), (P - 1) * B * (N / P) * C * e) << "the output, forward only";
      EXPECT_EQ(s.size(), 2U);
    });
}

TEST(Traffic, OfARingIsItsFormula) {
  for (const int64_t R : {2, 4})
    test::on_ranks(static_cast<int>(R), [&](const Rank& me) {
      const Sent s = sent(me, "['cp-ring']");
      const int64_t keys = B * (N / R) * H * 2 * d * e;  // and values
      EXPECT_EQ(s.at("send"), L * ((R - 1) + (R - 1) + R) * keys)
          << "there, there again, and their gradients home";
      EXPECT_EQ(s.at("gather"), (R - 1) * B * (N / R) * C * e);
      EXPECT_EQ(s.size(), 2U);
    });
}

// Heads are exchanged inside a node of U, and keys of the heads that a rank then has go round among R nodes.
TEST(Traffic, OfTheGridIsItsFormulaInEachOfItsDimensions) {
  test::on_ranks(4, [](const Rank& me) {
    const Sent s = sent(me, "[{ use = 'cp-2d', ulysses = 2 }]");
    const int64_t P = 4, U = 2, R = 2, keys = B * (N / R) * (H / U) * 2 * d * e;
    EXPECT_EQ(s.at("exchange"), 2 * L * (U - 1) * B * (N / P) * 4 * (H / U) * d * e);
    EXPECT_EQ(s.at("send"), L * ((R - 1) + (R - 1) + R) * keys);
    EXPECT_EQ(s.at("gather"), (P - 1) * B * (N / P) * C * e);
    EXPECT_EQ(s.size(), 3U);
  });
}

// Two all-to-alls a layer, and the keys of its one attention over everything.
TEST(Traffic, OfSpatialTemporalModelsIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const int64_t tokens = 2 * B * (N / P) * D * e, out = (P - 1) * B * (N / P) * C * e;
      const Sent hybrid = sent(me, "['stdit-hybrid']", "stdit");
      EXPECT_EQ(hybrid.at("exchange"), 2 * L * tokens / P * (P - 1));
      EXPECT_EQ(hybrid.at("gather"), (P - 1) * L * tokens + out);
      EXPECT_EQ(hybrid.at("scatter-sum"), (P - 1) * L * tokens);
      EXPECT_EQ(hybrid.size(), 3U);
      const Sent cp = sent(me, "[{ use = 'stdit-hybrid', layout = 'cp' }]", "stdit");
      EXPECT_EQ(cp.at("gather"), (P - 1) * L * 3 * tokens + out);
      EXPECT_EQ(cp.at("scatter-sum"), (P - 1) * L * 3 * tokens);
      const Sent ulysses = sent(me, "[{ use = 'stdit-hybrid', layout = 'ulysses' }]", "stdit");
      EXPECT_EQ(ulysses.at("exchange"), 2 * L * 3 * 2 * tokens / P * (P - 1));
    });
}

// Three tensors a layer are read by COLUMN weights, three are made by ROW weights.
TEST(Traffic, OfTensorParallelismIsItsFormula) {
  for (const int64_t T : {2, 4})
    test::on_ranks(static_cast<int>(T), [&](const Rank& me) {
      const Sent s = sent(me, "['tp']");
      const int64_t each = (T - 1) * B * (N / T) * D * e;
      EXPECT_EQ(s.at("gather"), 6 * L * each + (T - 1) * B * (N / T) * C * e);
      EXPECT_EQ(s.at("scatter-sum"), 6 * L * each);
      EXPECT_EQ(s.size(), 2U);
    });
}

}  // namespace
}  // namespace kinora
