// The base's attention compared with an explicit softmax, and the visibility rule with its definition.
#include "core/torch/attention/attention.hpp"

#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/torch/tensors/tensors_api.hpp"
#include "kernels/torch/fp8_attention_on_host.hpp"
#include "kinora/aten.hpp"
#include "tests/support/refusal.hpp"

extern "C" void kinora_torch_open(const kinora_host*);  // the entry of libkinora_torch

namespace kinora::core {
namespace {

struct AttentionCase {
  const char* name;
  Frames rule;
  uint32_t over = KINORA_OVER_ALL;
  bool shared = false, valid = false, shuffled = false, packed = false, per_sample = false;
};
Frames frames(int64_t streams, int64_t chunk, bool causal, int64_t window = 0, int64_t sink = 0) {
  Frames f;
  f.streams = streams, f.chunk = chunk, f.causal = causal, f.window = window, f.sink = sink;
  return f;
}

Frames with_cuts(Frames f, std::vector<int64_t> cuts, Frames::Pin pin) {
  f.cuts = std::move(cuts), f.pin = pin;
  return f;
}

Frames before(Frames f) {
  f.before = true;
  return f;
}

constexpr int64_t F = 8, H = 2, W = 3, B = 2, heads = 2, d = 4, E = 5;

// The chunks that a window shows to chunk c besides its own (LongLive): those of P, the sink and the pin, and the
// newest others that fit into the capacity of sink and window.
std::set<int64_t> shown_in_window(const Frames& f, int64_t c) {
  std::set<int64_t> kept;
  for (int64_t k = 0; k < f.sink; ++k) kept.insert(k);
  int64_t pin = -1;
  for (const int64_t cut : f.cuts)
    if (cut < c || (cut == c && f.pin == Frames::Pin::own)) pin = cut;
  if (pin > 0 && f.pin != Frames::Pin::none) kept.insert(pin);
  int64_t room = f.sink + f.window - static_cast<int64_t>(kept.size());
  std::set<int64_t> out = kept;
  for (int64_t k = c; k >= 0 && room > 0; --k)
    if (kept.count(k) == 0) out.insert(k), --room;
  return out;
}

// The definition of the rule, for one pair of tokens.
bool sees(const Frames& f, uint32_t over, const int64_t* q, const int64_t* k) {
  if (k[KINORA_TOKEN_INDEX] < 0 || q[KINORA_TOKEN_SAMPLE] != k[KINORA_TOKEN_SAMPLE]) return false;
  if (over == KINORA_OVER_SPACE && q[KINORA_TOKEN_FRAME] != k[KINORA_TOKEN_FRAME]) return false;
  if (over == KINORA_OVER_TIME &&
      (q[KINORA_TOKEN_ROW] != k[KINORA_TOKEN_ROW] || q[KINORA_TOKEN_COL] != k[KINORA_TOKEN_COL]))
    return false;
  if (f.before && k[KINORA_TOKEN_INDEX] > q[KINORA_TOKEN_INDEX]) return false;
  const int64_t ago = q[KINORA_TOKEN_CHUNK] - k[KINORA_TOKEN_CHUNK];
  const bool in_window =
      f.window == 0 || ago == 0 || shown_in_window(f, q[KINORA_TOKEN_CHUNK]).count(k[KINORA_TOKEN_CHUNK]) > 0;
  if (f.streams == 2) {
    const bool noisy_q = q[KINORA_TOKEN_NOISY] == 1, noisy_k = k[KINORA_TOKEN_NOISY] == 1;
    if (noisy_k) return noisy_q && ago == 0;
    return in_window && ago >= (noisy_q ? 1 : 0);
  }
  return !f.causal || (ago >= 0 && in_window);
}

class MaskedAttention : public testing::TestWithParam<AttentionCase> {
 protected:
  at::Tensor table_of(const AttentionCase& c) {
    auto t = token_table(c.rule, F, H, W, 4);
    if (c.packed) t[0].slice(0, 30, F * H * W).select(1, KINORA_TOKEN_SAMPLE).fill_(1);
    if (c.shuffled) t = t.index_select(1, at::randperm(t.size(1)));
    if (c.per_sample) t = at::cat({t, t.index_select(1, at::randperm(t.size(1)))}, 0);
    return t;
  }
  at::Tensor mask_of(const AttentionCase& c, const at::Tensor& table) {
    auto m = at::zeros({table.size(0), table.size(1), table.size(1)}, at::kBool);
    const auto* t = table.const_data_ptr<int64_t>();
    auto* to = m.data_ptr<bool>();
    const int64_t n = table.size(1);
    for (int64_t b = 0; b < table.size(0); ++b)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          *to++ = sees(c.rule, c.over, t + (b * n + i) * KINORA_TOKEN_COLUMNS,
                       t + (b * n + j) * KINORA_TOKEN_COLUMNS);
    return m;
  }
};

at::Tensor leaf(at::IntArrayRef shape) { return at::randn(shape, at::kDouble).set_requires_grad(true); }

TEST_P(MaskedAttention, EqualsTheExplicitSoftmaxWithItsGradients) {
  const auto& c = GetParam();
  at::manual_seed(3);
  const auto table = table_of(c).contiguous(), mask = mask_of(c, table);
  EXPECT_TRUE(at::equal(visible(c.rule, table, table, c.over), mask));
  const int64_t n = table.size(1);
  std::vector<at::Tensor> in{leaf({B, n, heads, d}), leaf({B, n, heads, d}), leaf({B, n, heads, d})};
  if (c.shared) in.push_back(leaf({B, E, heads, d})), in.push_back(leaf({B, E, heads, d}));
  auto valid = at::ones({B, E}, at::kBool);
  valid[1].narrow(0, 2, 3).fill_(false);

  kinora_attention how{};
  how.struct_size = sizeof how;
  how.over = c.over;
  how.name = c.name;
  how.scale = 0.4;
  how.q_table = how.k_table = handle(table);
  if (c.valid) how.kv_valid = handle(valid);
  if (c.shared) how.k_shared = handle(in[3]), how.v_shared = handle(in[4]);
  VisiblePlans plans;
  const auto got = attention(in[0], in[1], in[2], how, c.rule, plans);

  auto k = in[1], v = in[2], shown = mask.expand({B, n, n});
  if (c.shared) {
    k = at::cat({k, in[3]}, 1), v = at::cat({v, in[4]}, 1);
    shown = at::cat({shown, (c.valid ? valid : at::ones_like(valid)).unsqueeze(1).expand({B, n, E})}, 2);
  }
  // Queries that see none of their own keys (padding) get zero.
  const auto blind = ~mask.any(2).expand({B, n});
  auto scores = at::einsum("bqhd,bkhd->bhqk", {in[0], k}) * 0.4;
  scores = scores.masked_fill(~(shown | blind.unsqueeze(2)).unsqueeze(1), -INFINITY);
  const auto want = at::einsum("bhqk,bkhd->bqhd", {at::softmax(scores, -1), v})
                        .masked_fill(blind.unsqueeze(2).unsqueeze(3), 0);

  EXPECT_TRUE(at::allclose(got, want, 1e-12, 1e-13)) << c.name << " " << (got - want).abs().max();
  const auto weight = at::randn_like(want);
  const auto g = torch::autograd::grad({(got * weight).sum()}, in),
             w = torch::autograd::grad({(want * weight).sum()}, in);
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_TRUE(at::allclose(g[i], w[i], 1e-11, 1e-12)) << c.name << " gradient " << i;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, MaskedAttention,
    testing::Values(
        AttentionCase{"all", frames(1, 1, false)},
        AttentionCase{"space", frames(1, 1, false), KINORA_OVER_SPACE},
        AttentionCase{"time", frames(1, 1, false), KINORA_OVER_TIME},
        AttentionCase{"causal", frames(1, 1, true)}, AttentionCase{"causal by chunk", frames(1, 3, true)},
        AttentionCase{"window", frames(1, 1, true, 3)},
        AttentionCase{"window and sink", frames(1, 2, true, 2, 1)},
        AttentionCase{"causal in time", frames(1, 2, true), KINORA_OVER_TIME},
        AttentionCase{"causal in space", frames(1, 2, true), KINORA_OVER_SPACE},
        AttentionCase{"teacher forcing", frames(2, 1, true)},
        AttentionCase{"teacher forcing by chunk, windowed", frames(2, 2, true, 2, 1)},
        AttentionCase{"teacher forcing in time", frames(2, 1, true), KINORA_OVER_TIME},
        AttentionCase{"all, joint", frames(1, 1, false), KINORA_OVER_ALL, true},
        AttentionCase{"causal, joint, masked text", frames(1, 2, true), KINORA_OVER_ALL, true, true},
        AttentionCase{"space, joint, masked text", frames(1, 1, false), KINORA_OVER_SPACE, true, true},
        AttentionCase{"causal, in any order", frames(1, 2, true), KINORA_OVER_ALL, false, false, true},
        AttentionCase{"teacher forcing, in any order", frames(2, 2, true), KINORA_OVER_TIME, true, true,
                      true},
        AttentionCase{"next token", before(frames(1, 1, false))},
        AttentionCase{"next token, joint, masked text", before(frames(1, 1, false)), KINORA_OVER_ALL, true,
                      true},
        AttentionCase{"next token, in any order", before(frames(1, 1, false)), KINORA_OVER_ALL, false, false,
                      true},
        AttentionCase{"next token in time", before(frames(1, 1, false)), KINORA_OVER_TIME},
        AttentionCase{"next token, window and sink", before(frames(1, 2, true, 2, 1))},
        AttentionCase{"next token, packed, a table each sample", before(frames(1, 1, false)), KINORA_OVER_ALL,
                      true, true, true, true, true},
        AttentionCase{"shots", with_cuts(frames(1, 1, true, 3, 1), {2, 5}, Frames::Pin::own)},
        AttentionCase{"shots, the previous pin at a cut",
                      with_cuts(frames(1, 1, true, 2, 1), {3, 5}, Frames::Pin::before), KINORA_OVER_ALL, true,
                      true, true},
        AttentionCase{"shots, teacher forcing",
                      with_cuts(frames(2, 1, true, 2, 1), {1, 3}, Frames::Pin::before)},
        AttentionCase{"packed samples", frames(1, 2, true), KINORA_OVER_ALL, false, false, true, true},
        AttentionCase{"a table each sample", frames(1, 2, true), KINORA_OVER_ALL, true, true, true, true,
                      true}),
    [](const auto& info) {
      std::string n = info.param.name;
      std::replace_if(
          n.begin(), n.end(), [](char ch) { return !isalnum(ch); }, '_');
      return n;
    });

// float32 uses our kernel if the processor supports it. Covers odd sizes, and heads that are slices of a
// projection.
TEST(FusedAttention, EqualsTheExplicitSoftmaxInFloat64WithItsGradients) {
  at::manual_seed(5);
  for (const int64_t L : {1, 7, 300}) {
    const int64_t S = 131, width = 24;
    const auto both = [&](int64_t n) {
      const auto one = at::randn({B, n, heads, 3 * width});
      return std::pair{one.clone().set_requires_grad(true), one.to(at::kDouble).set_requires_grad(true)};
    };
    const auto [q32, q64] = both(S);
    const auto [k32, k64] = both(L);
    kinora_attention how{};
    how.name = "fused";
    how.scale = 0.3;
    VisiblePlans plans;
    const auto third = [](const at::Tensor& x, int64_t i) { return x.narrow(3, i * width, width); };
    const auto got = attention(third(q32, 1), third(k32, 0), third(k32, 2), how, {}, plans);
    const auto scores = at::einsum("bqhd,bkhd->bhqk", {third(q64, 1), third(k64, 0)}) * 0.3;
    const auto want = at::einsum("bhqk,bkhd->bqhd", {at::softmax(scores, -1), third(k64, 2)});
    EXPECT_TRUE(at::allclose(got.to(at::kDouble), want, 2e-6, 2e-6)) << (got - want).abs().max();
    const auto weight = at::randn_like(got);
    const auto g = torch::autograd::grad({(got * weight).sum()}, {q32, k32}),
               w = torch::autograd::grad({(want * weight).sum()}, {q64, k64});
    for (size_t i = 0; i < g.size(); ++i) {
      const double own = w[i].abs().max().item<double>();
      // With one key q's gradient is zero; the terms that cancel in it are of size 1.
      EXPECT_LT((g[i] - w[i]).abs().max().item<double>(), 3e-6 * (own < 1e-12 ? 1 : own)) << L << " " << i;
    }
  }
}

TEST(SharedKeys, AreMaskedByTheirOwnValidity) {
  const auto q = at::randn({B, 7, heads, d}, at::kDouble), k = at::randn({B, E, heads, d}, at::kDouble),
             v = at::randn({B, E, heads, d}, at::kDouble);
  auto valid = at::ones({B, E}, at::kBool);
  valid[0].narrow(0, 3, 2).fill_(false);
  kinora_attention how{};
  how.name = "text";
  how.scale = 1;
  how.kv_valid = handle(valid);
  VisiblePlans plans;
  const auto got = attention(q, k, v, how, {}, plans);
  how.kv_valid = nullptr;
  const auto cut = attention(q, k.narrow(1, 0, 3), v.narrow(1, 0, 3), how, {}, plans),
             full = attention(q, k, v, how, {}, plans);
  EXPECT_TRUE(at::allclose(got[0], cut[0], 1e-13, 1e-13));
  EXPECT_TRUE(at::allclose(got[1], full[1], 1e-13, 1e-13));
}

TEST(SharedKeys, NoneOfWhichIsValidGiveZeroNotNan) {
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const auto q = at::randn({B, 7, heads, d}, dtype).set_requires_grad(true),
               k = at::randn({B, E, heads, d}, dtype);
    const auto valid = at::zeros({B, E}, at::kBool);
    kinora_attention how{};
    how.name = "text";
    how.scale = 1;
    how.kv_valid = handle(valid);
    VisiblePlans plans;
    const auto got = attention(q, k, k, how, {}, plans);
    EXPECT_EQ(got.abs().sum().item<double>(), 0);
    EXPECT_EQ(torch::autograd::grad({got.sum()}, {q})[0].abs().sum().item<double>(), 0);
  }
}

TEST(Plans, RegularRulesNeedNoIndicesAndFewBatches) {
  const auto plan = [](const Frames& f, uint32_t over) {
    const auto t = token_table(f, F, H, W)[0];
    return plan_visible(f, t, t, over, at::kCPU);
  };
  const auto all = plan(frames(1, 1, false), KINORA_OVER_ALL);
  ASSERT_EQ(all.batches.size(), 1U);
  EXPECT_EQ(all.batches[0].k.count, F * H * W);
  EXPECT_FALSE(all.order.defined() || all.batches[0].q.index.defined());
  const auto space = plan(frames(1, 1, false), KINORA_OVER_SPACE);
  ASSERT_EQ(space.batches.size(), 1U) << "one batch of frames";
  EXPECT_EQ(space.batches[0].groups, F);
  EXPECT_FALSE(space.order.defined() || space.batches[0].k.index.defined());
  const auto time = plan(frames(1, 1, false), KINORA_OVER_TIME);
  ASSERT_EQ(time.batches.size(), 1U);
  EXPECT_EQ(time.batches[0].groups, H * W);
  const auto causal = plan(frames(1, 2, true), KINORA_OVER_ALL);
  ASSERT_EQ(causal.batches.size(), 4U);
  for (const auto& b : causal.batches)
    EXPECT_FALSE(b.q.index.defined() || b.k.index.defined()) << "prefixes are ranges";
  // Teacher forcing in 4 chunks visits 4 * (1 + 2 + 3 + 4) blocks of 8 x 8, 62 % of all pairs, and needs no
  // masks.
  const auto forcing = plan(frames(2, 1, true), KINORA_OVER_ALL);
  int64_t products = 0;
  for (const auto& b : forcing.batches) products += b.groups * b.queries * b.keys;
  EXPECT_EQ(products, 2 * (1 + 2 + 3 + 4) * (H * W) * (H * W));
}

// In how many of a plan's groups each pair is visible, int64 [S, L].
at::Tensor shown(const VisiblePlan& plan, int64_t S, int64_t L) {
  const auto out = at::zeros({S, L}, at::kLong);
  const auto rows = [](const Rows& r) {
    return r.first < 0 ? r.index : at::arange(r.first, r.first + r.count, at::kLong);
  };
  for (const auto& b : plan.batches) {
    const auto q = rows(b.q).view({b.groups, b.queries}), k = rows(b.k).view({b.groups, b.keys});
    auto own = at::ones({b.queries, b.keys}, at::kLong);
    if (b.before) own = own.tril(b.keys - b.queries);
    for (int64_t g = 0; g < b.groups; ++g) out.index_put_({q[g].unsqueeze(1), k[g].unsqueeze(0)}, own, true);
  }
  return out;
}

TEST(Rules, AreTheSameInMasksPlansAndTheirDefinition) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    at::manual_seed(seed);
    const auto draw = [](int64_t below) { return at::randint(below, {1}).item<int64_t>(); };
    Frames f = frames(1 + draw(2), 1 + draw(3), draw(3) > 0, draw(5), draw(3));
    f.first_chunk = draw(4);
    f.start = draw(3), f.before = draw(4) == 0, f.pin = static_cast<Frames::Pin>(draw(3));
    for (int64_t c = 1; c < 12; ++c)
      if (draw(4) == 0) f.cuts.push_back(c);
    const uint32_t over = static_cast<uint32_t>(draw(3));
    const auto table = token_table(f, 10, 1, 2, 1);
    const int64_t n = table.size(1);
    const auto q = table.index_select(1, at::randperm(n)),
               k = draw(2) ? table : table.index_select(1, at::randperm(n));
    auto want = at::zeros({n, n}, at::kLong);
    auto* to = want.data_ptr<int64_t>();
    const auto row = [](const at::Tensor& t, int64_t i) {
      return t.const_data_ptr<int64_t>() + i * KINORA_TOKEN_COLUMNS;
    };
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) *to++ = sees(f, over, row(q, i), row(k, j));
    EXPECT_TRUE(at::equal(visible(f, q, k, over)[0].to(at::kLong), want)) << "seed " << seed;
    EXPECT_TRUE(at::equal(shown(plan_visible(f, q[0], k[0], over, at::kCPU), n, n), want)) << "seed " << seed;
  }
}

// The chunks of all frames, counted one by one.
TEST(Rules, TheFirstChunkMayHaveAnotherLength) {
  constexpr int64_t kFrames = 9, kLongest = 20;
  for (const int64_t chunk : {1, 2, 3})
    for (const int64_t first : {0, 1, 2, 3, 7})
      for (const int64_t start : {0, 1, 4}) {
        std::vector<int64_t> by_hand;
        Frames f = frames(2, chunk, true);
        f.first_chunk = first, f.start = start;
        for (int64_t c = 0; by_hand.size() < kLongest; ++c) {
          EXPECT_EQ(f.chunks().begin(c), static_cast<int64_t>(by_hand.size())) << chunk << first;
          by_hand.insert(by_hand.end(), static_cast<size_t>(c == 0 && first > 0 ? first : chunk), c);
        }
        const auto column = token_table(f, 2 * kFrames, 1, 1)[0].select(1, KINORA_TOKEN_CHUNK);
        for (int64_t i = 0; i < 2 * kFrames; ++i)
          EXPECT_EQ(column[i].item<int64_t>(), by_hand.at(static_cast<size_t>(start + i % kFrames)))
              << "frame " << start << " + " << i << " in chunks of " << chunk << ", the first of " << first;
      }
}

TEST(NextToken, QueriesAtTheEndOfMoreKeysSeeThoseBeforeThem) {
  const Frames rule = before(frames(1, 1, false));
  const auto table = token_table(rule, F, H, W);
  const int64_t n = table.size(1);
  at::manual_seed(4);
  const auto q = at::randn({B, n, 2 * heads, d}, at::kDouble), k = at::randn({B, n, heads, d}, at::kDouble),
             v = at::randn({B, n, heads, d}, at::kDouble);
  kinora_attention how{};
  how.name = "self";
  how.scale = 0.5;
  VisiblePlans plans;
  how.q_table = how.k_table = handle(table);
  const auto whole = attention(q, k, v, how, rule, plans);
  for (const int64_t last : {int64_t{1}, int64_t{5}, n}) {
    const auto some = table.narrow(1, n - last, last);
    const auto plan = plan_visible(rule, some[0], table[0], KINORA_OVER_ALL, at::kCPU);
    ASSERT_EQ(plan.batches.size(), 1U) << "one group, not one a query";
    EXPECT_EQ(plan.batches[0].groups, 1);
    EXPECT_FALSE(plan.batches[0].k.index.defined() || plan.order.defined());
    how.q_table = handle(some);
    const auto got = attention(q.narrow(1, n - last, last), k, v, how, rule, plans);
    EXPECT_TRUE(at::allclose(got, whole.narrow(1, n - last, last), 1e-12, 1e-13)) << last;
  }
}

TEST(Attention, SaysWhichTensorDoesNotFitItsTable) {
  const auto t = token_table({}, 2, 1, 2);
  const auto x = at::randn({1, 5, 1, 4});
  kinora_attention how{};
  how.name = "self";
  how.q_table = how.k_table = handle(t);
  VisiblePlans plans;
  try {
    attention(x, x, x, how, {}, plans);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'self': q [1, 5, 1, 4]"), std::string::npos) << e.what();
  }
}

TEST(Attention, AddsABiasToTheScoresOfSharedTokensWithItsGradient) {
  at::manual_seed(4);
  auto valid = at::ones({B, 5}, at::kBool);
  valid[1].narrow(0, 3, 2).fill_(false);
  for (const auto& shape : {std::vector<int64_t>{B, heads, 4, 5}, {1, heads, 4, 5}, {1, 1, 4, 5}}) {
    const std::vector<at::Tensor> in{leaf({B, 4, heads, d}), leaf({B, 5, heads, d}), leaf({B, 5, heads, d}),
                                     leaf(shape)};
    kinora_attention how{};
    how.scale = 0.4;
    how.kv_valid = handle(valid);
    how.bias = handle(in[3]);
    VisiblePlans plans;
    const auto got = attention(in[0], in[1], in[2], how, {}, plans);
    const auto scores = (at::einsum("bqhd,bkhd->bhqk", {in[0], in[1]}) * 0.4 + in[3])
                            .masked_fill(~valid.unsqueeze(1).unsqueeze(1), -INFINITY);
    const auto want = at::einsum("bhqk,bkhd->bqhd", {at::softmax(scores, -1), in[2]});
    EXPECT_TRUE(at::allclose(got, want, 1e-12, 1e-13));
    const auto weight = at::randn_like(want);
    const auto g = torch::autograd::grad({(got * weight).sum()}, in),
               w = torch::autograd::grad({(want * weight).sum()}, in);
    for (size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(at::allclose(g[i], w[i], 1e-11, 1e-12)) << i;
  }
}

TEST(Attention, RefusesABiasOfASequenceAndOneThatDoesNotFit) {
  const auto t = token_table({}, 2, 1, 2);
  const auto x = at::randn({1, 4, 1, 4}), bias = at::zeros({1, 1, 4, 4}), narrow = at::zeros({1, 1, 4, 3});
  const auto message = [&](const at::Tensor& b, const at::Tensor& table) -> std::string {
    kinora_attention how{};
    how.name = "self";
    how.bias = handle(b);
    how.q_table = how.k_table = handle(table);
    VisiblePlans plans;
    return test::refusal([&] { attention(x, x, x, how, {}, plans); });
  };
  EXPECT_NE(message(bias, t).find("'self': a bias is for shared queries and keys only"), std::string::npos);
  EXPECT_NE(message(narrow, {}).find("'self': the bias [1, 1, 4, 3] is not [1 or 1, 1 or 1, 4, 4]"),
            std::string::npos);
}

// Groups of queries, a table for each sample, and fewer heads of keys; not a mask or shared keys.
TEST(Attention, IsInFp8WhereAFactorAllowsItAndNothingIsHidden) {
  kinora_torch_open(kinora_core_host());
  at::manual_seed(5);
  auto t = token_table(frames(1, 2, true), F, H, W);
  t = at::cat({t, t.index_select(1, at::randperm(t.size(1)))}, 0).contiguous();
  const auto low = [&](int64_t of, at::Tensor& factor) {  // 48 tokens, the first sample's of another size
    const auto x = at::randn({B, F * H * W, of, 16}) * at::tensor({100.f, 1.f}).view({B, 1, 1, 1});
    factor = 448 / x.abs().amax({1, 3}, true);
    return (x * factor).to(at::kFloat8_e4m3fn).to(at::kFloat) / factor;
  };
  at::Tensor by_q, by_k, by_v;
  const at::Tensor q = low(heads, by_q), k = low(1, by_k), v = low(1, by_v);
  kinora_attention how{};
  how.scale = 0.01;
  how.q_table = how.k_table = handle(t);
  how.q_factor = handle(by_q), how.k_factor = handle(by_k), how.v_factor = handle(by_v);
  VisiblePlans plans;
  const auto made = [&](gpu::Fp8Attention* fp8) {
    return attention(q, k, v, how, frames(1, 2, true), plans, fp8);
  };
  gpu::Fp8Attention fp8(&gpu::on_host::library<true>());
  gpu::on_host::asked = 0;
  const at::Tensor want = made(nullptr), got = made(&fp8);
  EXPECT_EQ(gpu::on_host::asked, 2 * F / 2);  // chunks of both samples
  for (int64_t b = 0; b < B; ++b)
    EXPECT_LT((got[b] - want[b]).norm().item<double>(), 0.03 * want[b].norm().item<double>()) << b;
  const at::Tensor shared = at::randn({B, E, 1, 16});
  how.k_shared = how.v_shared = handle(shared);
  EXPECT_TRUE(at::equal(made(&fp8), made(nullptr)));
  EXPECT_EQ(gpu::on_host::asked, 2 * F / 2);
}

}  // namespace
}  // namespace kinora::core
