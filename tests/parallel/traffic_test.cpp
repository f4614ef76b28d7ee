// Bytes that a rank sends in one forward and backward, exactly as the formulas of the strategies' headers
// say.
#include <cstdlib>
#include <optional>

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

Sent sent(const Rank& me, const std::string& parallel, const std::string& model = "dit",
          const std::optional<core::LoraOptions>& lora = {}) {
  me.launched();
  const test::ScratchRun run(
      {{"dit",
        "precision = 'fp64'\nparallel = " + parallel + "\nmodel = { use = '" + model +
            "', in_channels = 2, out_channels = 2, " +
            (model == "wan" ? "text_dim = 12, num_attention_heads = 4, attention_head_dim = 12, "
                              "freq_dim = 8, ffn_dim = 24, num_layers = 2 }"
                            : "text_size = 12, heads = 4, head_size = 12, adaln_lora = 4, layers = 2 }")}});
  core::JobContext context = run.context("dit", false);
  const core::Parallelism parallelism(context);
  const core::Component component = context.open_slot("model");
  core::Network network(component, context.spec().component("model")->options,
                        {.dtype = at::kDouble, .lora = lora}, parallelism.links());
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

// Two all-to-alls a layer, and the keys of its one attention over everything: there, there again, and their
// gradients home.
TEST(Traffic, OfSpatialTemporalModelsIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const int64_t tokens = 2 * B * (N / P) * D * e, out = (P - 1) * B * (N / P) * C * e,
                    round = ((P - 1) + (P - 1) + P) * tokens;
      const Sent hybrid = sent(me, "['stdit-hybrid']", "stdit");
      EXPECT_EQ(hybrid.at("exchange"), 2 * L * tokens / P * (P - 1));
      EXPECT_EQ(hybrid.at("send"), L * round);
      EXPECT_EQ(hybrid.at("gather"), out);
      EXPECT_EQ(hybrid.size(), 3U);
      const Sent cp = sent(me, "[{ use = 'stdit-hybrid', layout = 'cp' }]", "stdit");
      EXPECT_EQ(cp.at("send"), L * 3 * round);
      EXPECT_EQ(cp.at("gather"), out);
      EXPECT_EQ(cp.size(), 2U);
      const Sent ulysses = sent(me, "[{ use = 'stdit-hybrid', layout = 'ulysses' }]", "stdit");
      EXPECT_EQ(ulysses.at("exchange"), 2 * L * 3 * 2 * tokens / P * (P - 1));
    });
}

// Three tensors a layer are read by COLUMN weights, three are made by ROW weights.
TEST(Traffic, OfTensorParallelismIsItsFormula) {
  for (const int64_t T : {2, 4})
    test::on_ranks(static_cast<int>(T), [&](const Rank& me) {
      const int64_t each = (T - 1) * B * (N / T) * D * e, out = (T - 1) * B * (N / T) * C * e;
      const Sent s = sent(me, "['tp']");
      EXPECT_EQ(s.at("gather"), (6 + 3) * L * each + out) << "what COLUMN weights read, twice";
      EXPECT_EQ(s.at("scatter-sum"), 6 * L * each);
      EXPECT_EQ(s.size(), 2U);
      // q, k and v are three weights that read one tensor.
      const Sent apart = sent(me, "['tp']", "wan");
      EXPECT_EQ(apart.at("gather"), s.at("gather"));
      EXPECT_EQ(apart.at("scatter-sum"), s.at("scatter-sum"));
    });
}

// A frozen weight needs none of the tokens that it read; an adapter's, of its rank's width, are gathered
// beside them.
TEST(Traffic, OfTensorParallelismFollowsWhatIsTrained) {
  test::on_ranks(2, [](const Rank& me) {
    constexpr int64_t T = 2, rank = 3, token = (T - 1) * B * (N / T) * e, out = token * C;
    const auto gathered = [&](const std::string& model, std::vector<std::string> targets) {
      return sent(me, "['tp']", model, core::LoraOptions{.rank = rank, .alpha = 2, .targets = targets})
                 .at("gather") -
             out;
    };
    // Forward: three tensors a layer. Backward: of ROW weights, no gradient goes below the first adapter.
    EXPECT_EQ(gathered("dit", {"linear_fc1"}), token * ((3 + 3) * L - 2) * D + token * 2 * L * rank);
    EXPECT_EQ(gathered("dit", {"linear_fc2"}), token * ((3 + 3) * L - 3) * D + token * L * rank);
    EXPECT_EQ(gathered("wan", {"to_q", "to_k", "to_v"}), token * (3 + 3) * L * D + token * 2 * 4 * L * rank)
        << "adapters of q, k and v, and of the text's q: their base weights read one tensor";
  });
}

}  // namespace
}  // namespace kinora
