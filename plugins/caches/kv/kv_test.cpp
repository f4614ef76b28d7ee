// cache/kv against attention with an explicit mask over all tokens, in float64: what a query sees is counted
// here token by token, without a cache.
#include <algorithm>
#include <deque>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/context/visibility.hpp"
#include "kinora/abi/cache.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/windowed.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
using testing::HasSubstr;
constexpr int64_t kB = 2, kH = 3, kD = 4, kMost = 40;
constexpr int64_t kRow = kB * kH * kD * 8 * 2;           // bytes of a token's keys and values
constexpr int64_t kTableRow = KINORA_TOKEN_COLUMNS * 8;  // bytes of a token in a table
constexpr double kScale = 0.5;

// The end of a chain: a query sees the keys of its own INDEX and lower ones.
struct End : Link<Tensor> {
  End() : Link(KINORA_LEVEL_BASE) {}
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    keys = k.size(1);
    if (!how.kv_seq) return at::zeros_like(q);
    const auto index = [](kinora_tensor t) { return borrow<Tensor>(t)[0].select(1, KINORA_TOKEN_INDEX); };
    const Tensor seen = index(how.k_table).unsqueeze(0) <= index(how.q_table).unsqueeze(1);
    return test::masked_attention(q, k, v, how.scale, seen);
  }
  int64_t keys = 0;
};

Tensor drawn(uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({kB, kMost, kH, kD}, at::kDouble);
}
const Tensor& q() {
  static const Tensor x = drawn(1);
  return x;
}
const Tensor& k() {
  static const Tensor x = drawn(2);
  return x;
}
const Tensor& v() {
  static const Tensor x = drawn(3);
  return x;
}

// A chain of two: the cache's link over End.
struct Kv : test::Instance<kinora_cache> {
  End end;
  kinora_chain chain{};
  kinora_pass pass{};
  const kinora_link* link = nullptr;
  explicit Kv(int64_t window = 0, int64_t tokens = 0)
      : Instance("cache/kv", core::json{{"window", window}}, tokens) {
    check((*this)->link(self(), &link));
    pass.struct_size = sizeof pass;
    chain.struct_size = sizeof chain;
    chain.self = &pass;
    chain.next = chain.head = end.get()->context;
    chain.get_pass = [](void* self, kinora_pass* out) -> int32_t {
      KINORA_FILL(out, static_cast<kinora_pass*>(self));
      return KINORA_OK;
    };
    check(link->bind(link->context->self, &chain));
  }
  // A forward of tokens [first, end) of q, k, v.
  Tensor forward(int64_t first, int64_t last, const char* name = "self") {
    core::Frames frames;
    frames.start = first;
    return attention(core::token_table(frames, last - first, 1, 1), first, last, name);
  }
  Tensor attention(const Tensor& table, int64_t first, int64_t last, const char* name = "self") {
    tables.push_back(table);
    kinora_attention how{};
    how.struct_size = sizeof how;
    how.name = name;
    how.q_seq = how.kv_seq = 1;
    how.scale = kScale;
    how.q_table = how.k_table = handle(tables.back());
    const auto mine = [&](const Tensor& x) { return x.narrow(1, first, last - first); };
    return Context<Tensor>(link->context).attention(mine(q()), mine(k()), mine(v()), how);
  }
  int64_t tokens(uint32_t branch = 0) {
    int64_t n = -1;
    check((*this)->tokens(self(), branch, &n));
    return n;
  }
  int64_t bytes() {
    int64_t n = -1;
    check((*this)->bytes(self(), &n));
    return n;
  }
  void reset(uint32_t branch) { check((*this)->reset(self(), branch)); }
  void trim(uint32_t branch, int64_t n) { check((*this)->trim(self(), branch, n)); }
  void pin(int64_t first, int64_t count) { check((*this)->pin(self(), first, count)); }
  std::deque<Tensor> tables;  // alive, so that none has the address of an earlier one
};

double worst(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

struct Case {
  int64_t window;
  std::vector<std::pair<int64_t, int64_t>> pinned;  // first, count
  std::vector<int64_t> forwards;                    // tokens of each
};
const Case kCases[] = {{0, {}, {1, 1, 1, 5, 3}},
                       {4, {}, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
                       {4, {{0, 2}}, {3, 1, 1, 1, 1, 1, 1, 1, 1}},
                       {6, {{0, 1}}, {2, 2, 2, 2, 2, 2, 2, 2}},
                       {5, {{0, 2}, {6, 3}}, {4, 3, 2, 1, 4, 1, 1, 5, 2, 7, 1, 1}},
                       {3, {{7, 1}}, {2, 2, 2, 2, 2, 2}},
                       {1, {{0, 4}}, {4, 1, 1, 1, 6, 1}}};

// The tokens before `first` that a forward of [first, end) sees.
std::vector<bool> kept(const Case& c, const std::vector<bool>& before, int64_t first, int64_t end) {
  const auto is_pinned = [&](int64_t i) {
    return std::any_of(c.pinned.begin(), c.pinned.end(),
                       [&](const auto& p) { return p.first <= i && i < p.first + p.second; });
  };
  int64_t left = c.window > 0 ? c.window : kMost;
  for (int64_t i = first; i < end; ++i) left -= !is_pinned(i);
  std::vector<bool> out(before.size(), false);
  for (int64_t i = first - 1; i >= 0; --i)
    if (before[static_cast<size_t>(i)]) out[static_cast<size_t>(i)] = is_pinned(i) || left-- > 0;
  return out;
}

TEST(KvCache, IsAMaskOverAllTokens) {
  const at::NoGradGuard off;
  double worst_of_all = 0;
  for (const auto& c : kCases) {
    Kv cache(c.window);
    for (const auto& [first, count] : c.pinned) cache.pin(first, count);
    std::vector<bool> there(kMost, false);
    int64_t first = 0;
    for (const int64_t n : c.forwards) {
      const int64_t end = first + n;
      there = kept(c, there, first, end);
      Tensor seen = at::zeros({n, end}, at::kBool);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < end; ++j)
          seen[i][j] = j < first ? bool(there[static_cast<size_t>(j)]) : j <= first + i;
      const auto all = [&](const Tensor& x) { return x.narrow(1, 0, end); };
      const Tensor want = test::masked_attention(q().narrow(1, first, n), all(k()), all(v()), kScale, seen);
      for (const char* name : {"first", "second"}) {
        const double apart = worst(cache.forward(first, end, name), want);
        ASSERT_LT(apart, 1e-12) << "window " << c.window << ", token " << first << ", attention " << name;
        worst_of_all = test::worse(worst_of_all, apart);
      }
      std::fill(there.begin() + first, there.begin() + end, true);
      EXPECT_EQ(cache.tokens(), std::count(there.begin(), there.end(), true));
      first = end;
    }
  }
  std::printf("          worst difference %.2g\n", worst_of_all);
}

TEST(KvCache, AWindowAndPinnedTokensChangeWhatIsSeen) {
  const at::NoGradGuard off;
  Kv all, window(3), pinned(3);
  pinned.pin(0, 1);
  Tensor outs[3];
  for (int64_t i = 0; i < 9; ++i) {
    outs[0] = all.forward(i, i + 1);
    outs[1] = window.forward(i, i + 1);
    outs[2] = pinned.forward(i, i + 1);
  }
  EXPECT_EQ(all.end.keys, 9);
  EXPECT_EQ(window.end.keys, 3);
  EXPECT_EQ(pinned.end.keys, 4);
  EXPECT_GT(worst(outs[0], outs[1]), 1e-3);
  EXPECT_GT(worst(outs[1], outs[2]), 1e-3);
}

TEST(KvCache, BytesOfAWindowAreBounded) {
  const at::NoGradGuard off;
  constexpr int64_t kWindow = 8, kPinned = 3, kEach = kWindow + kPinned;
  for (const int64_t expected : {int64_t{0}, kMost}) {
    Kv bounded(kWindow, expected), whole(0, expected);
    bounded.pin(0, kPinned);
    for (int64_t i = 0; i < kMost; ++i) {
      bounded.forward(i, i + 1);
      whole.forward(i, i + 1);
      ASSERT_LE(bounded.bytes(), kRow * (kEach + kEach / 4 + 1)) << i;
      ASSERT_EQ(bounded.tokens(), std::min(i + 1, kEach));
    }
    EXPECT_GE(whole.bytes(), kRow * kMost);
    if (expected > 0) {
      EXPECT_EQ(whole.bytes(), kRow * kMost) << "allocated once";
    }
  }
}

TEST(KvCache, AForwardReplacesWhatFollowsItsFirstToken) {
  const at::NoGradGuard off;
  Kv cache, other;
  cache.forward(0, 4);
  const Tensor first = cache.forward(4, 6);
  EXPECT_EQ(worst(cache.forward(4, 6), first), 0) << "a second pass over a chunk";
  EXPECT_EQ(cache.tokens(), 6);
  other.forward(0, 3);
  EXPECT_EQ(worst(cache.forward(3, 8), other.forward(3, 8)), 0);
  EXPECT_EQ(cache.tokens(), 8);
}

TEST(KvCache, TrimKeepsTheFirstTokensOfABranch) {
  const at::NoGradGuard off;
  Kv cache, short_one;
  for (uint32_t branch : {0u, 1u}) {
    cache.pass.branch = branch;
    cache.forward(0, 7);
  }
  const int64_t bytes = cache.bytes();
  cache.trim(0, 3);
  EXPECT_EQ(cache.tokens(0), 3);
  EXPECT_EQ(cache.tokens(1), 7);
  EXPECT_EQ(cache.tokens(2), 0);
  EXPECT_EQ(cache.bytes(), bytes) << "the room stays";
  cache.pass.branch = 0;
  short_one.forward(0, 3);
  EXPECT_EQ(worst(cache.forward(9, 12), short_one.forward(9, 12)), 0) << "tokens 3 to 6 are gone";
  cache.trim(KINORA_BRANCH_ALL, 0);
  EXPECT_EQ(cache.tokens(0) + cache.tokens(1), 0);
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST(KvCache, ResetFreesABranchAndAllOfThemTheirPins) {
  const at::NoGradGuard off;
  Kv cache(2);
  cache.pin(0, 1);
  for (uint32_t branch : {0u, 1u}) {
    cache.pass.branch = branch;
    for (int64_t i = 0; i < 5; ++i) cache.forward(i, i + 1);
    EXPECT_EQ(cache.tokens(branch), 3) << "a token of every branch is pinned";
  }
  const int64_t bytes = cache.bytes();
  cache.reset(1);
  EXPECT_EQ(cache.tokens(1), 0);
  EXPECT_EQ(cache.bytes(), bytes / 2);
  const auto again = [&] {
    cache.pass.branch = 0;
    for (int64_t i = 0; i < 5; ++i) cache.forward(i, i + 1);
    return cache.tokens(0);
  };
  cache.reset(0);
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(again(), 3);
  cache.reset(KINORA_BRANCH_ALL);
  EXPECT_EQ(again(), 2);
  cache.pin(0, 9);
  cache.trim(KINORA_BRANCH_ALL, 1);
  EXPECT_EQ(again(), 3) << "what is trimmed is no longer pinned";
}

TEST(KvCache, PaddingAndTextAreNotStored) {
  const at::NoGradGuard off;
  Kv cache, plain;
  const Tensor padded = cache.attention(core::token_table(core::Frames(), 3, 1, 1, 2), 0, 5);
  EXPECT_EQ(worst(padded.narrow(1, 0, 3), plain.forward(0, 3)), 0);
  EXPECT_EQ(cache.tokens(), 3);
  EXPECT_EQ(cache.end.keys, 3);
  kinora_attention how{};
  how.struct_size = sizeof how;
  how.name = "cross";
  how.scale = 1;
  Context<Tensor>(cache.link->context)
      .attention(q().narrow(1, 0, 2), k().narrow(1, 0, 4), v().narrow(1, 0, 4), how);
  EXPECT_EQ(cache.end.keys, 4);
  EXPECT_EQ(cache.bytes(), 3 * kRow);
}

TEST(KvCache, SaysWhatItCannotDo) {
  const auto refused = [](const auto& call) { return test::refusal(call); };
  const at::NoGradGuard off;
  Kv cache;
  cache.forward(0, 3);
  EXPECT_THAT(refused([&] { cache.forward(3, 4, "late"); }),
              HasSubstr("attention 'late': token 0 precedes this forward and is not in the cache; reset it"));
  EXPECT_THAT(refused([&] { cache.pin(-1, 2); }), HasSubstr("pin: 2 tokens from token -1"));
  EXPECT_THAT(refused([&] { cache.pin(0, 0); }), HasSubstr("pin at least one"));
  const at::AutoGradMode on(true);
  const Tensor keys = k().narrow(1, 4, 1).clone().set_requires_grad(true);
  kinora_attention how{};
  how.struct_size = sizeof how;
  how.name = "self";
  how.kv_seq = how.q_seq = 1;
  const Tensor table = core::token_table(core::Frames(), 1, 1, 1);
  how.q_table = how.k_table = handle(table);
  EXPECT_THAT(refused([&] { Context<Tensor>(cache.link->context).attention(keys, keys, keys, how); }),
              HasSubstr("attention 'self': a KV cache is for passes without gradients"));
}

// 2 (keys and values) x samples x heads x width x bytes of a number for each token: by the formula, by the cache's own
// account, and by the allocator.
TEST(Kv, HoldsTheBytesOfItsTokensAndNoOthers) {
  const at::NoGradGuard off;
  q(), k(), v();  // exist before the count begins
  for (const auto& [window, tokens] : {std::pair<int64_t, int64_t>{0, 24}, {8, 8}}) {
    Kv kv(window, tokens);
    test::Metered::begin();
    for (int64_t first = 0; first < 24; first += 4) kv.forward(first, first + 4);
    kv.tables.clear();
    const int64_t held = test::Metered::now();
    EXPECT_EQ(held, kv.bytes() + (tokens + 4) * kTableRow) << "and the tables of the last attention, once";
    EXPECT_GE(held, tokens * kRow);
    EXPECT_LE(held, (tokens + 8) * kRow) << "room for the tokens of two forwards at most";
  }
}

}  // namespace
}  // namespace kinora
