// Bytes that a rank sends in one forward and backward equal the formulas in the strategies'
// headers.
#include <gtest/gtest.h>

#include "tests/support/stepping.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Sent;
using test::Stepping;

// The model of every case: kLayers of self-attention, cross-attention and MLP, width D = H d, C channels per
// output token; N is a multiple of all of them.
constexpr int64_t kLayers = 2, H = 4, d = 12, D = H * d, C = 8, B = Stepping::B, N = Stepping::N,
                  e = Stepping::e;

Sent sent(const Rank& me, const std::string& parallel, const std::string& model = test::models::dit(4),
          const std::optional<core::LoraOptions>& lora = {}) {
  return Stepping(me, parallel, model, lora).passes();
}

TEST(Traffic, OfUlyssesIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const Sent s = sent(me, "['cp-ulysses']");
      EXPECT_EQ(s.at("exchange"), 2 * kLayers * (P - 1) * B * (N / P) * 4 * (H / P) * d * e);
      EXPECT_EQ(s.at("gather"), (P - 1) * B * (N / P) * C * e) << "the output, forward only";
      EXPECT_EQ(s.size(), 2U);
    });
}

// Parts of n columns for each of B N / P tokens, in values of 8 bytes where gradients keep their dtype.
TEST(Traffic, OfUlyssesInFewerBytesIsItsFormula) {
  constexpr int64_t P = 2, rows = B * N / P;
  const auto up = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
  test::on_ranks(P, [&](const Rank& me) {
    const auto exchanged = [&](const std::string& options) {
      return sent(me, "[{ use = 'cp-ulysses', " + options + " }]").at("exchange");
    };
    const auto part = [&](auto bytes) {
      return kLayers * (P - 1) * (bytes(3 * H / P * d) + bytes(H / P * d));
    };
    const auto same = [&](int64_t n) { return rows * n * e; };
    const auto fp8 = [&](int64_t n) { return rows * n + 4 * rows * up(n, 128); };
    const auto nvfp4 = [&](int64_t n) { return rows * up(n, 2) + rows * up(n, 16) + 4; };
    EXPECT_EQ(exchanged("wire = 'auto'"), 2 * part(same));
    EXPECT_EQ(exchanged("wire = 'bfloat16'"), part(same) + part(same) / 4);
    EXPECT_EQ(exchanged("wire = 'fp8'"), part(fp8) + part(same));
    EXPECT_EQ(exchanged("wire = 'nvfp4'"), part(nvfp4) + part(same));
    EXPECT_EQ(exchanged("wire = 'fp8', gradient_wire = 'nvfp4'"), part(fp8) + part(nvfp4));
  });
}

TEST(Traffic, OfARingIsItsFormula) {
  for (const int64_t R : {2, 4})
    test::on_ranks(static_cast<int>(R), [&](const Rank& me) {
      const Sent s = sent(me, "['cp-ring']");
      const int64_t keys = B * (N / R) * H * 2 * d * e;  // and values
      EXPECT_EQ(s.at("send"), kLayers * ((R - 1) + (R - 1) + R) * keys)
          << "forward, again in the backward, and their gradients back";
      EXPECT_EQ(s.at("gather"), (R - 1) * B * (N / R) * C * e);
      EXPECT_EQ(s.size(), 2U);
    });
}

// Heads are exchanged inside a node of U ranks, and keys of a rank's heads circulate among R nodes.
TEST(Traffic, OfTheGridIsItsFormulaInEachOfItsDimensions) {
  test::on_ranks(4, [](const Rank& me) {
    const Sent s = sent(me, "[{ use = 'cp-2d', ulysses = 2 }]");
    const int64_t P = 4, U = 2, R = 2, keys = B * (N / R) * (H / U) * 2 * d * e;
    EXPECT_EQ(s.at("exchange"), 2 * kLayers * (U - 1) * B * (N / P) * 4 * (H / U) * d * e);
    EXPECT_EQ(s.at("send"), kLayers * ((R - 1) + (R - 1) + R) * keys);
    EXPECT_EQ(s.at("gather"), (P - 1) * B * (N / P) * C * e);
    EXPECT_EQ(s.size(), 3U);
  });
}

// Teacher forcing's clean and noisy copies of a rank's stretch of time, L tokens in total: heads for tokens,
// like Ulysses.
TEST(Traffic, OfBalancedSpIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      core::Frames rule;
      rule.streams = 2;
      const Sent s = Stepping(me, "['balanced-sp']", test::models::dit(4), {}, rule).passes();
      const int64_t L = N / P;
      EXPECT_EQ(s.at("exchange"), 2 * kLayers * (P - 1) * B * L * 4 * (H / P) * d * e);
      EXPECT_EQ(s.at("gather"), (P - 1) * B * L * C * e) << "the output, forward only";
      EXPECT_EQ(s.size(), 2U);
    });
}

// Two all-to-alls per layer, and the keys of its one attention over all tokens: forward, again in the
// backward, and their gradients back.
TEST(Traffic, OfSpatialTemporalModelsIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const int64_t tokens = 2 * B * (N / P) * D * e, out = (P - 1) * B * (N / P) * C * e,
                    round = ((P - 1) + (P - 1) + P) * tokens;
      const Sent hybrid = sent(me, "['stdit-hybrid']", test::models::kStDit);
      EXPECT_EQ(hybrid.at("exchange"), 2 * kLayers * tokens / P * (P - 1));
      EXPECT_EQ(hybrid.at("send"), kLayers * round);
      EXPECT_EQ(hybrid.at("gather"), out);
      EXPECT_EQ(hybrid.size(), 3U);
      const Sent cp = sent(me, "[{ use = 'stdit-hybrid', layout = 'cp' }]", test::models::kStDit);
      EXPECT_EQ(cp.at("send"), kLayers * 3 * round);
      EXPECT_EQ(cp.at("gather"), out);
      EXPECT_EQ(cp.size(), 2U);
      const Sent ulysses = sent(me, "[{ use = 'stdit-hybrid', layout = 'ulysses' }]", test::models::kStDit);
      EXPECT_EQ(ulysses.at("exchange"), 2 * kLayers * 3 * 2 * tokens / P * (P - 1));
    });
}

// Three tensors per layer are read by COLUMN weights, three are made by ROW weights.
TEST(Traffic, OfTensorParallelismIsItsFormula) {
  for (const int64_t T : {2, 4})
    test::on_ranks(static_cast<int>(T), [&](const Rank& me) {
      const int64_t each = (T - 1) * B * (N / T) * D * e, out = (T - 1) * B * (N / T) * C * e;
      const Sent s = sent(me, "['tp']");
      EXPECT_EQ(s.at("gather"), (6 + 3) * kLayers * each + out) << "inputs of COLUMN weights, twice";
      EXPECT_EQ(s.at("scatter-sum"), 6 * kLayers * each);
      EXPECT_EQ(s.size(), 2U);
      // q, k and v are three weights that read one tensor.
      const Sent apart = sent(me, "['tp']", test::models::kWan);
      EXPECT_EQ(apart.at("gather"), s.at("gather"));
      EXPECT_EQ(apart.at("scatter-sum"), s.at("scatter-sum"));
    });
}

// A frozen weight needs no gathered tokens in the backward; an adapter's inputs, as wide as its rank, are
// gathered in addition.
TEST(Traffic, OfTensorParallelismFollowsWhatIsTrained) {
  test::on_ranks(2, [](const Rank& me) {
    constexpr int64_t T = 2, rank = 3, token = (T - 1) * B * (N / T) * e, out = token * C;
    const auto gathered = [&](const std::string& model, std::vector<std::string> targets) {
      return sent(me, "['tp']", model, core::LoraOptions{.rank = rank, .alpha = 2, .targets = targets})
                 .at("gather") -
             out;
    };
    // Forward: three tensors per layer. Backward: of ROW weights; no gradient goes below the first adapter.
    EXPECT_EQ(gathered(test::models::dit(4), {"linear_fc1"}),
              token * ((3 + 3) * kLayers - 2) * D + token * 2 * kLayers * rank);
    EXPECT_EQ(gathered(test::models::dit(4), {"linear_fc2"}),
              token * ((3 + 3) * kLayers - 3) * D + token * kLayers * rank);
    EXPECT_EQ(gathered(test::models::kWan, {"to_q", "to_k", "to_v"}),
              token * (3 + 3) * kLayers * D + token * 2 * 4 * kLayers * rank)
        << "adapters of q, k and v, and of the text's q: their base weights read one tensor";
  });
}

}  // namespace
}  // namespace kinora
