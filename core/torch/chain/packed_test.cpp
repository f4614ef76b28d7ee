// Packed rows: a model's result for several videos in one row equals its result for each alone.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/plugin/host.hpp"
#include "core/torch/chain/chain.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using testing::HasSubstr;
using PackedContext = kinora::Context<Tensor>;
using Sizes = std::vector<std::array<int64_t, 3>>;

const Sizes kSizes = {{4, 2, 3}, {2, 3, 1}, {4, 1, 2}, {2, 3, 1}};
const std::vector<int64_t> kTexts = {3, 1, 4, 2};
constexpr int64_t kHeads = 4, kWidth = 8;  // query heads; two key heads: GQA

int64_t tokens(const std::array<int64_t, 3>& s) { return s[0] * s[1] * s[2]; }

// Inputs of one video or of a packed row; all [1, .., kHeads * kWidth].
struct PackedInputs {
  Tensor x, by_frame, text;
  Tensor text_table;  // int64 [1, L, 8], or undefined
  std::vector<Tensor> leaves() const { return {x, by_frame, text}; }
};

Tensor leaf(int64_t n) { return at::randn({1, n, kHeads * kWidth}, at::kDouble).set_requires_grad(true); }

// Applies per-frame conditioning, positions, self-attention and attention to the text.
Tensor mixed(const PackedContext& c, kinora_seq seq, const Tensor& tokens, const PackedInputs& in,
             Over over) {
  const Tensor table = c.table(seq, Place::inner)[0];
  const auto column = [&](int64_t n) { return table.select(1, n).to(at::kDouble).view({1, -1, 1}); };
  Tensor y = tokens + in.by_frame.index_select(1, table.select(1, KINORA_TOKEN_FRAME));
  y = y * (1 + column(KINORA_TOKEN_TIME) / 4 + column(KINORA_TOKEN_ROW) / 8 + column(KINORA_TOKEN_COL) / 16);
  const auto heads = [](const Tensor& t, int64_t n) {
    return t.narrow(2, 0, n * kWidth).unflatten(2, {n, kWidth});
  };
  Attention<Tensor> self{"self", 0, seq, seq, 0.2, over};
  y = y + c.attention(heads(y, kHeads), heads(y, 2).sin(), heads(y, 2).cos(), self).flatten(2);
  Attention<Tensor> cross{"cross", 0, seq, 0, 0.3};
  cross.k_table = in.text_table;
  return y + c.attention(heads(y, kHeads), heads(in.text, 2).sin(), heads(in.text, 2), cross).flatten(2);
}

class Packed : public testing::TestWithParam<std::tuple<std::string, Over>> {
 protected:
  static void SetUpTestSuite() { serve_tensors(); }
  static Frames rule(const std::string& name) {
    Frames f;
    f.causal = name != "all" && name != "before";
    f.before = name == "before";
    if (name == "window") f.chunk = 1, f.window = 2;
    if (name == "chunks") f.chunk = 2;
    if (name == "forcing") f.streams = 2;
    return f;
  }
};

std::unique_ptr<Chain> chain_of(const Frames& rule, int64_t token_multiple = 1) {
  ChainOptions o;
  o.dtype = at::kDouble;
  o.frames = rule;
  o.token_multiple = token_multiple;
  auto out = std::make_unique<Chain>(o);
  out->ready();
  return out;
}

// The sample of each text token; the last token belongs to none and is invisible.
Tensor text_table() {
  std::vector<Tensor> rows;
  for (size_t i = 0; i < kTexts.size(); ++i) {
    rows.push_back(at::zeros({1, kTexts[i], KINORA_TOKEN_COLUMNS}, at::kLong));
    rows.back().select(2, KINORA_TOKEN_SAMPLE).fill_(static_cast<int64_t>(i));
  }
  rows.push_back(at::zeros({1, 1, KINORA_TOKEN_COLUMNS}, at::kLong));
  rows.back().select(2, KINORA_TOKEN_INDEX).fill_(-1);
  return at::cat(rows, 1);
}

TEST_P(Packed, RowsEqualTheirSamplesAlone) {
  const auto& [name, over] = GetParam();
  at::manual_seed(5);
  std::vector<PackedInputs> alone;
  PackedInputs row;
  std::vector<Tensor> x, by_frame, text, want, got_gradients, want_gradients;
  const auto chain = chain_of(rule(name)), packed = chain_of(rule(name), 16);
  const PackedContext c(chain->head()), p(packed->head());
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const auto& s = kSizes[i];
    alone.push_back({leaf(tokens(s)), leaf(s[0]), leaf(kTexts[i]), {}});
    kinora_seq seq = 0;
    const Tensor t = c.sequence(alone[i].x, s[0], s[1], s[2], seq);
    want.push_back(c.gather(mixed(c, seq, t, alone[i], over), seq));
    x.push_back(alone[i].x), by_frame.push_back(alone[i].by_frame), text.push_back(alone[i].text);
  }
  text.push_back(at::full({1, 1, kHeads * kWidth}, 1e3, at::kDouble));
  const PackedInputs joined{at::cat(x, 1), at::cat(by_frame, 1), at::cat(text, 1), text_table()};
  kinora_seq seq = 0;
  const Tensor tokens = p.packed(joined.x, kSizes, seq);
  EXPECT_EQ(tokens.size(1), 48) << "44 tokens and padding";
  const Tensor got = p.gather(mixed(p, seq, tokens, joined, over), seq), all = at::cat(want, 1);
  ASSERT_EQ(got.sizes(), all.sizes());
  double worst = (got - all).abs().max().item<double>();
  const Tensor weight = at::randn_like(all);
  std::vector<Tensor> leaves;
  for (const auto& in : alone)
    for (const auto& l : in.leaves()) leaves.push_back(l);
  const auto g = torch::autograd::grad({(got * weight).sum()}, leaves),
             w = torch::autograd::grad({(all * weight).sum()}, leaves);
  for (size_t i = 0; i < g.size(); ++i) {
    EXPECT_GT(w[i].abs().max().item<double>(), 1e-3) << i;
    worst = test::worse(worst, (g[i] - w[i]).abs().max().item<double>());
  }
  EXPECT_LT(worst, 1e-11);
  std::printf("          worst difference %.2g\n", worst);
}

INSTANTIATE_TEST_SUITE_P(Rules, Packed,
                         testing::Combine(testing::Values("all", "causal", "chunks", "window", "forcing",
                                                          "before"),
                                          testing::Values(Over::all, Over::space, Over::time)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_over_" +
                                  std::to_string(static_cast<uint32_t>(std::get<1>(info.param)));
                         });

TEST(PackedTable, BeginsPositionsAnewInEachSampleAndRunsFramesOn) {
  Frames rule;
  rule.chunk = 2;
  rule.causal = true;
  const Tensor t = token_table(rule, {{2, 1, 2}, {3, 2, 1}}, 1)[0];
  ASSERT_EQ(t.size(0), 4 + 6 + 1);
  EXPECT_TRUE(at::equal(t[3], at::tensor({3, 1, 1, 0, 1, 0, 0, 0, 0}, at::kLong))) << t[3];
  EXPECT_TRUE(at::equal(t[4], at::tensor({4, 2, 0, 0, 0, 0, 0, 1, 0}, at::kLong))) << t[4];
  EXPECT_TRUE(at::equal(t[9], at::tensor({9, 4, 2, 1, 0, 0, 1, 1, 0}, at::kLong))) << t[9];
  EXPECT_EQ(t[10][KINORA_TOKEN_SAMPLE].item<int64_t>(), -1);
}

TEST(PackedTable, IsOneGroupASampleWithoutMasksOrIndices) {
  const Frames rule;
  const Tensor t = token_table(rule, {{4, 2, 3}, {2, 3, 1}, {2, 3, 1}}, 2)[0];
  const auto plan = plan_visible(rule, t, t, KINORA_OVER_ALL, at::kCPU);
  ASSERT_EQ(plan.batches.size(), 2U) << "by size";
  EXPECT_EQ(plan.batches[0].groups, 2);
  EXPECT_EQ(plan.batches[1].groups, 1);
  EXPECT_EQ(plan.blind, 2);
  for (const auto& b : plan.batches) {
    EXPECT_EQ(b.queries, b.keys);
    EXPECT_FALSE(b.before || b.q.index.defined() || b.k.index.defined());
  }
}

TEST(PackedRow, ThatDoesNotFitIsRefused) {
  serve_tensors();
  const auto chain = chain_of({});
  const PackedContext c(chain->head());
  const Tensor x = at::randn({1, 8, 4}, at::kDouble), q = x.view({1, 8, 1, 4});
  kinora_seq seq = 0;
  EXPECT_THAT(test::refusal([&] {
                c.packed(x, {{2, 1, 1}, {5, 1, 1}}, seq);
              }),
              HasSubstr("are 7, but x is [1, 8, 4]"));
  EXPECT_THAT(test::refusal([&] {
                c.packed(x, {{8, 1, 1}, {1, 0, 1}}, seq);
              }),
              HasSubstr("sample 1 of a packed row has 1 frames of 0 x 1"));
  const int64_t sizes[] = {2, 1, 1, 5, 1, 1};
  kinora_seq_spec spec{sizeof spec, 0, 8, 1, 1, nullptr, 2, sizes};
  EXPECT_THAT(test::refusal([&] { c.sequence(x, spec, seq); }),
              HasSubstr("have 7 tokens, and frames, rows, cols are 8"));
  spec.struct_size = offsetof(kinora_seq_spec, n_samples);  // an older header: fields behind it are not read
  EXPECT_EQ(test::refusal([&] { c.sequence(x, spec, seq); }), "nothing was refused");
  EXPECT_EQ(c.table(seq, Place::stream).select(2, KINORA_TOKEN_SAMPLE).max().item<int64_t>(), 0);

  Attention<Tensor> how{"cross", 0, seq, 0, 1};
  how.k_table = at::zeros({1, 8, KINORA_TOKEN_COLUMNS}, at::kLong);
  how.kv_valid = at::ones({1, 8}, at::kBool);
  EXPECT_THAT(test::refusal([&] { c.attention(q, q, q, how); }), HasSubstr("without kv_valid"));
  how.q_seq = 0, how.kv_valid = Tensor();
  EXPECT_THAT(test::refusal([&] { c.attention(q, q, q, how); }), HasSubstr("is for queries of a sequence"));

  Frames later;
  later.start = 2;
  const auto stream = chain_of(later);
  EXPECT_THAT(test::refusal([&] {
                PackedContext(stream->head()).packed(x, {{4, 1, 1}, {4, 1, 1}}, seq);
              }),
              HasSubstr("cannot continue at frame 2"));
}

}  // namespace
}  // namespace kinora::core
