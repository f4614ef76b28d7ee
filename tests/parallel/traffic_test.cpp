// Bytes that a rank sends in one forward and backward, exactly as the formulas of the strategies' headers
// say.
#include <gtest/gtest.h>

#include "tests/support/stepping.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Sent;
using test::Stepping;

// The model of every case: LAYERS of self-attention, cross-attention and MLP, width D = H d, C channels of an
// output's token; N is a multiple of everything.
constexpr int64_t LAYERS = 2, H = 4, d = 12, D = H * d, C = 8, B = Stepping::B, N = Stepping::N,
                  e = Stepping::e;

Sent sent(const Rank& me, const std::string& parallel, const std::string& model = test::models::dit(4)) {
  return Stepping(me, parallel, model).passes();
}

TEST(Traffic, OfUlyssesIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const Sent s = sent(me, "['cp-ulysses']");
      EXPECT_EQ(s.at("exchange"), 2 * LAYERS * (P - 1) * B * (N / P) * 4 * (H / P) * d * e);
      EXPECT_EQ(s.at("gather"), (P - 1) * B * (N / P) * C * e) << "the output, forward only";
      EXPECT_EQ(s.size(), 2U);
    });
}

TEST(Traffic, OfARingIsItsFormula) {
  for (const int64_t R : {2, 4})
    test::on_ranks(static_cast<int>(R), [&](const Rank& me) {
      const Sent s = sent(me, "['cp-ring']");
      const int64_t keys = B * (N / R) * H * 2 * d * e;  // and values
      EXPECT_EQ(s.at("send"), LAYERS * ((R - 1) + (R - 1) + R) * keys)
          << "there, there again, and their gradients home";
      EXPECT_EQ(s.at("gather"), (R - 1) * B * (N / R) * C * e);
      EXPECT_EQ(s.size(), 2U);
    });
}

// Two all-to-alls a layer, and the keys of its one attention over everything.
TEST(Traffic, OfSpatialTemporalModelsIsItsFormula) {
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      const int64_t tokens = 2 * B * (N / P) * D * e, out = (P - 1) * B * (N / P) * C * e;
      const Sent hybrid = sent(me, "['stdit-hybrid']", test::models::kStDit);
      EXPECT_EQ(hybrid.at("exchange"), 2 * LAYERS * tokens / P * (P - 1));
      EXPECT_EQ(hybrid.at("gather"), (P - 1) * LAYERS * tokens + out);
      EXPECT_EQ(hybrid.at("scatter-sum"), (P - 1) * LAYERS * tokens);
      EXPECT_EQ(hybrid.size(), 3U);
      const Sent cp = sent(me, "[{ use = 'stdit-hybrid', layout = 'cp' }]", test::models::kStDit);
      EXPECT_EQ(cp.at("gather"), (P - 1) * LAYERS * 3 * tokens + out);
      EXPECT_EQ(cp.at("scatter-sum"), (P - 1) * LAYERS * 3 * tokens);
      const Sent ulysses = sent(me, "[{ use = 'stdit-hybrid', layout = 'ulysses' }]", test::models::kStDit);
      EXPECT_EQ(ulysses.at("exchange"), 2 * LAYERS * 3 * 2 * tokens / P * (P - 1));
    });
}

// Three tensors a layer are read by COLUMN weights, three are made by ROW weights.
TEST(Traffic, OfTensorParallelismIsItsFormula) {
  for (const int64_t T : {2, 4})
    test::on_ranks(static_cast<int>(T), [&](const Rank& me) {
      const Sent s = sent(me, "['tp']");
      const int64_t each = (T - 1) * B * (N / T) * D * e;
      EXPECT_EQ(s.at("gather"), 6 * LAYERS * each + (T - 1) * B * (N / T) * C * e);
      EXPECT_EQ(s.at("scatter-sum"), 6 * LAYERS * each);
      EXPECT_EQ(s.size(), 2U);
    });
}

}  // namespace
}  // namespace kinora
