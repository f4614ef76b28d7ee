// cache/kv against attention with an explicit mask over all tokens, in float64: what a query sees is counted
// here token by token, without a cache.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/attention/visibility.hpp"
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
  End() : Link(KINORA_LEVEL_BASE, KINORA_ATTENTION_CODES) {}
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    keys = k.size(1);
    if (!how.kv_seq) return at::zeros_like(q);
    codes = how.needs & KINORA_ATTENTION_CODES;
    if (codes) {
      const auto decoded = [](const Tensor& x, kinora_tensor scales) {
        return x.to(at::kDouble) * borrow<Tensor>(scales).to(at::kDouble);
      };
      auto plain = how;
      plain.needs = 0;
      const Tensor out = attention(q, decoded(k, how.k_scales), decoded(v, how.v_scales), plain);
      codes = true;
      return out;
    }
    const auto index = [](kinora_tensor t) { return borrow<Tensor>(t)[0].select(1, KINORA_TOKEN_INDEX); };
    const Tensor seen = index(how.k_table).unsqueeze(0) <= index(how.q_table).unsqueeze(1);
    return test::masked_attention(q, k, v, how.scale, seen);
  }
  int64_t keys = 0;
  bool codes = false;
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

using Saved = std::map<std::string, Tensor>;

// A chain of two: the cache's link over End.
struct Kv : test::Instance<kinora_cache> {
  End end;
  kinora_chain chain{};
  kinora_pass pass{};
  const kinora_link* link = nullptr;
  explicit Kv(int64_t window = 0, int64_t tokens = 0) : Kv(core::json{{"window", window}}, tokens) {}
  explicit Kv(const core::json& options, int64_t tokens = 0) : Instance("cache/kv", options, tokens) {
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
    const auto mine = [&](const Tensor& x) { return x.narrow(1, first, last - first); };
    return attention(table, mine(q()), mine(k()), mine(v()), nullptr, name);
  }
  Tensor attention(const Tensor& table, const Tensor& q, const Tensor& k, const Tensor& v,
                   const kinora_rope* rope, const char* name = "self") {
    tables.push_back(table);
    kinora_attention how{};
    how.struct_size = sizeof how;
    how.name = name;
    how.q_seq = how.kv_seq = 1;
    how.scale = kScale;
    how.q_table = how.k_table = handle(tables.back());
    how.rope = rope;
    return Context<Tensor>(link->context).attention(q, k, v, how);
  }
  // One token of this INDEX whose q, k and v are those of token `row`.
  Tensor token(int64_t index, int64_t row, const char* name = "self") {
    core::Frames frames;
    frames.start = index;
    return attention(core::token_table(frames, 1, 1, 1), row, row + 1, name);
  }
  // The calls below are about the session of `pass`.
  int64_t tokens(uint32_t branch = 0) {
    int64_t n = -1;
    check((*this)->tokens(self(), pass.session, branch, &n));
    return n;
  }
  int64_t bytes() {
    int64_t n = -1;
    check((*this)->bytes(self(), pass.session, &n));
    return n;
  }
  void reset(uint32_t branch) { check((*this)->reset(self(), pass.session, branch)); }
  void trim(uint32_t branch, int64_t n) { check((*this)->trim(self(), pass.session, branch, n)); }
  void pin(int64_t first, int64_t count) { check((*this)->pin(self(), pass.session, first, count)); }
  void unpin(int64_t first, int64_t count) { check((*this)->unpin(self(), pass.session, first, count)); }
  void copy(uint64_t from, uint64_t to) { check((*this)->copy(self(), from, to)); }
  Saved save() {
    Saved out;
    const auto take = [](void* to, const kinora_named* one) -> int32_t {
      (*static_cast<Saved*>(to))[one->name] = borrow<Tensor>(one->tensor).clone();
      return KINORA_OK;
    };
    check((*this)->save(self(), pass.session, &out, take));
    return out;
  }
  void restore(const Saved& saved) {
    std::vector<kinora_named> in;
    for (const auto& [name, tensor] : saved) in.push_back({name.c_str(), handle(tensor)});
    check((*this)->restore(self(), pass.session, in.data(), in.size()));
  }
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

TEST(KvCache, GapsOfAForwardFillNothingAndProtectNothing) {
  const at::NoGradGuard off;
  const auto table = [](int64_t first, int64_t count) {
    core::Frames frames;
    frames.start = first;
    return core::token_table(frames, count, 1, 1);
  };
  Kv apart, again, whole;
  apart.forward(0, 3);
  const Tensor far = apart.attention(table(20, 4), 3, 7);
  EXPECT_EQ(apart.tokens(), 7) << "0 to 2, and 20 to 23";
  EXPECT_LT(worst(far, whole.forward(0, 7).narrow(1, 3, 4)), 1e-12);
  again.forward(0, 24);
  again.attention(at::cat({table(0, 3), table(20, 4)}, 1), 0, 7);
  EXPECT_EQ(again.tokens(), 7) << "3 to 19 were computed from the old 0 to 2";
  EXPECT_EQ(worst(again.token(24, 30), apart.token(24, 30)), 0);
  EXPECT_EQ(again.end.keys, 8);
}

// Videos whose tokens are those from row 20 * session on.
int64_t row(uint64_t session, int64_t index) { return 20 * static_cast<int64_t>(session % 2) + index; }

TEST(KvCache, SessionsInTurnAreSessionsAlone) {
  const at::NoGradGuard off;
  Kv turns(4, 12);
  Kv alone[] = {Kv(4, 12), Kv(4, 12)};
  for (uint64_t session : {0, 1}) {
    turns.pass.session = session;
    for (Kv* kv : {&turns, &alone[session]}) kv->pin(static_cast<int64_t>(session), 1);
  }
  for (int64_t i = 0; i < 9; ++i)
    for (uint64_t session : {0, 1})
      for (uint32_t branch : {0u, 1u}) {
        turns.pass.session = session;
        turns.pass.branch = alone[session].pass.branch = branch;
        EXPECT_TRUE(at::equal(turns.token(i, row(session, i)), alone[session].token(i, row(session, i))));
        EXPECT_EQ(turns.tokens(branch), alone[session].tokens(branch));
      }
  turns.reset(KINORA_BRANCH_ALL);
  EXPECT_EQ(turns.bytes(), 0);
  turns.pass.session = 0;
  EXPECT_EQ(turns.tokens(), 5);
  EXPECT_EQ(turns.bytes(), alone[0].bytes());
}

TEST(KvCache, AnUnknownSessionIsEmpty) {
  Kv cache;
  cache.pass.session = 77;
  EXPECT_EQ(cache.tokens(), 0);
  EXPECT_EQ(cache.bytes(), 0);
  cache.trim(KINORA_BRANCH_ALL, 3);
  cache.unpin(0, 3);
  cache.reset(KINORA_BRANCH_ALL);
  const Saved nothing = cache.save();
  const at::NoGradGuard off;
  cache.forward(0, 3);
  cache.restore(nothing);
  EXPECT_EQ(cache.tokens(), 0);
  cache.forward(0, 3);
  cache.copy(78, 77);
  EXPECT_EQ(cache.tokens(), 0);
}

TEST(KvCache, ABranchedVideoIsAReplayOfBoth) {
  const at::NoGradGuard off;
  Kv cache(4);
  Kv replay[] = {Kv(4), Kv(4)};
  cache.pass.session = 8;
  cache.forward(0, 11);  // what the copy replaces
  cache.pin(5, 6);
  const auto each = [](Kv& kv, int64_t index, int64_t from) {
    std::vector<Tensor> out;
    for (uint32_t branch : {0u, 1u})
      for (const char* name : {"first", "second"}) {
        kv.pass.branch = branch;
        out.push_back(kv.token(index, from, name));
      }
    return at::stack(out);
  };
  cache.pass.session = 7;
  for (Kv* kv : {&cache, &replay[0], &replay[1]}) {
    kv->pin(0, 2);
    for (int64_t i = 0; i < 7; ++i) each(*kv, i, i);
  }
  cache.copy(7, 8);
  for (int64_t i = 7; i < 12; ++i)
    for (uint64_t session : {8, 7}) {
      cache.pass.session = session;
      Kv& other = replay[session % 2];
      EXPECT_TRUE(at::equal(each(cache, i, row(session, i)), each(other, i, row(session, i)))) << i;
      EXPECT_EQ(cache.tokens(), other.tokens());
    }
}

TEST(KvCache, ASavedSessionContinuesAsIfItHadStayed) {
  const at::NoGradGuard off;
  Kv stays(4), leaves(4), comes(4);
  for (Kv* kv : {&stays, &leaves}) {
    kv->pin(0, 2);
    for (int64_t i = 0; i < 7; ++i)
      for (uint32_t branch : {0u, 3u}) {
        kv->pass.branch = branch;
        kv->token(i, i + branch);
      }
  }
  const Saved saved = leaves.save();
  leaves.reset(KINORA_BRANCH_ALL);
  EXPECT_EQ(leaves.bytes(), 0);
  comes.pass.session = 5;
  leaves.restore(saved);
  comes.restore(saved);
  for (int64_t i = 7; i < 11; ++i)
    for (uint32_t branch : {0u, 3u}) {
      stays.pass.branch = leaves.pass.branch = comes.pass.branch = branch;
      const Tensor expected = stays.token(i, i + branch);
      for (Kv* kv : {&leaves, &comes}) {
        EXPECT_TRUE(at::equal(kv->token(i, i + branch), expected)) << i;
        EXPECT_EQ(kv->tokens(branch), 6);
      }
    }
}

TEST(KvCache, RestoreRefusesWhatItDidNotSave) {
  const at::NoGradGuard off;
  Kv cache;
  cache.forward(0, 3);
  const Saved saved = cache.save();
  const auto without = [&](const char* name) {
    Saved out = saved;
    EXPECT_EQ(out.erase(name), 1u) << name;
    return out;
  };
  const auto changed = [&](const char* name, const Tensor& to) {
    Saved out = saved;
    out[name] = to;
    return out;
  };
  cache.forward(3, 5);
  const Saved no_keys{{"kv/1", saved.at("kv/1")}, {"table.0", saved.at("table.0")}};
  const std::pair<Saved, const char*> wrong[] = {
      {no_keys, "'table.0'"},
      {changed("table.00", saved.at("table.0")), "'table.00'"},
      {changed("table.4294967296", saved.at("table.0")), "'table.4294967296'"},
      {changed("table.4294967295", saved.at("table.0")), "'table.4294967295'"},
      {changed("table.1", saved.at("table.0")), "'table.1'"},
      {changed("table.0", saved.at("table.0").repeat({3, 1, 1})), "'k.0.self'"},
      {changed("v.0.self", saved.at("v.0.self").narrow(0, 0, 1)), "'k.0.self'"},
      {changed("v.0.self", saved.at("v.0.self").narrow(2, 0, 2)), "'k.0.self'"},
      {changed("kv/1", at::zeros({2, 3}, at::kLong)), "'kv/1'"},
      {{}, "'kv/1'"},
      {without("kv/1"), "'kv/1'"},
      {without("table.0"), "'k.0.self'"},
      {without("v.0.self"), "'v.0.self'"},
      {without("k.0.self"), "'v.0.self'"},
      {changed("v.0.self", saved.at("v.0.self").narrow(1, 0, 2)), "'k.0.self'"},
      {changed("table.0", saved.at("table.0").to(at::kInt)), "'table.0'"},
      {changed("table.x", saved.at("table.0")), "'table.x'"},
      {changed("nvfp4/1", saved.at("table.0")), "'nvfp4/1'"}};
  for (const auto& [given, word] : wrong) {
    EXPECT_THAT(test::refusal([&, &given = given] { cache.restore(given); }), HasSubstr(word));
    EXPECT_EQ(cache.tokens(), 5) << "the session stays";
  }
  cache.restore(saved);
  EXPECT_EQ(cache.tokens(), 3);
}

TEST(KvCache, UnpinLetsTokensGo) {
  const at::NoGradGuard off;
  Kv cache(3);
  cache.pin(0, 3);
  cache.pin(2, 2);
  for (int64_t i = 0; i < 9; ++i) cache.token(i, i);
  EXPECT_EQ(cache.tokens(), 7);
  cache.unpin(1, 2);  // token 2 was pinned twice
  const Tensor made = cache.token(9, 9);
  EXPECT_EQ(cache.tokens(), 5);
  const Tensor seen = at::zeros({1, 10}, at::kBool);
  for (const int64_t i : {0, 3, 7, 8, 9}) seen[0][i] = true;
  const auto all = [](const Tensor& x) { return x.narrow(1, 0, 10); };
  EXPECT_LT(worst(made, test::masked_attention(q().narrow(1, 9, 1), all(k()), all(v()), kScale, seen)),
            1e-12);
  cache.unpin(0, kMost);
  cache.token(10, 10);
  EXPECT_EQ(cache.tokens(), 3);
}

// Chunks of two tokens: each is denoised by passes that store nothing, then stored.
TEST(KvCache, AReadOnlyPassSeesWhatAStoringOneDoesAndLeavesNoTrace) {
  const at::NoGradGuard off;
  Kv plain(4), denoised(4);
  const auto look = [&](int64_t first, int64_t from) {
    core::Frames frames;
    frames.start = first;
    denoised.pass.read_only = 1;
    const Tensor out = denoised.attention(core::token_table(frames, 2, 1, 1), from, from + 2);
    denoised.pass.read_only = 0;
    return out;
  };
  for (Kv* kv : {&plain, &denoised}) kv->pin(1, 1);
  for (int64_t first = 0; first < 12; first += 2) {
    const int64_t tokens = denoised.tokens(), bytes = denoised.bytes();
    look(first, 30);
    look(0, 32);  // of what was stored long ago
    const Tensor before = look(first, first);
    EXPECT_EQ(denoised.tokens(), tokens);
    EXPECT_EQ(denoised.bytes(), bytes);
    const Tensor stored = denoised.forward(first, first + 2);
    EXPECT_LT(worst(before, stored), 1e-12);
    EXPECT_TRUE(at::equal(stored, plain.forward(first, first + 2))) << first;
    EXPECT_EQ(denoised.tokens(), plain.tokens());
    EXPECT_EQ(denoised.bytes(), plain.bytes());
  }
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
  EXPECT_THAT(refused([&] { cache.pin(0, 0); }), HasSubstr("give at least one"));
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

// Frames of two tokens. Frame f is that of rows 2 (f % 20) and the next of q, k and v; from frame 6 on a second shot,
// eight positions later. Pairs of channels: one of time, one of columns.
constexpr int64_t kArea = 2, kShot = 6;
constexpr double kFrequency[] = {0.9, 0.7}, kRates[] = {1, 0.5};
int64_t time_of(int64_t frame, int64_t start) { return frame + (frame - start >= kShot ? 8 : 0); }

Tensor of_frames(const Tensor& x, const std::vector<int64_t>& frames) {
  std::vector<Tensor> out;
  for (const int64_t f : frames) out.push_back(x.narrow(1, f % (kMost / kArea) * kArea, kArea));
  return at::cat(out, 1);
}

// x [B, frames * 2, heads, 4] rotated to these positions of its frames, number by number.
Tensor rotated(const Tensor& x, uint32_t layout, const std::vector<double>& times, bool columns = true) {
  Tensor out = x.clone();
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t s = 0; s < x.size(1); ++s)
      for (int64_t i = 0; i < 2; ++i) {
        const double position = i == 0    ? times[static_cast<size_t>(s / kArea)] * kRates[b]
                                : columns ? s % kArea
                                          : 0;
        const double c = std::cos(position * kFrequency[i]), n = std::sin(position * kFrequency[i]);
        const bool halves = layout == KINORA_ROPE_HALVES;
        const int64_t first = halves ? i : 2 * i, second = halves ? i + 2 : 2 * i + 1;
        const Tensor p = x[b][s].select(1, first), q = x[b][s].select(1, second);
        out[b][s].select(1, first).copy_(p * c - q * n);
        out[b][s].select(1, second).copy_(q * c + p * n);
      }
  return out;
}

// A stream of frames with their rotation, given to a cache one by one.
struct Stream {
  Kv cache;
  uint32_t layout;
  int64_t start, column = KINORA_TOKEN_TIME;
  Tensor rates = at::tensor({kRates[0], kRates[1]}, at::kDouble);
  explicit Stream(const core::json& options, uint32_t of = KINORA_ROPE_HALVES, int64_t from = 0)
      : cache(options), layout(of), start(from) {}
  kinora_rope rope() const {
    kinora_rope out{};
    out.struct_size = sizeof out;
    out.layout = layout;
    out.n_axes = 2;
    out.frequency = kFrequency;
    for (int axis : {0, 1}) out.pairs[axis] = out.divisor[axis] = 1;
    out.column[0] = column, out.column[1] = KINORA_TOKEN_COL;
    out.rate = handle(rates);
    return out;
  }
  Tensor at_own_place(const Tensor& x, int64_t f) const {
    return rotated(of_frames(x, {f}), layout, {static_cast<double>(time_of(f, start))});
  }
  Tensor operator()(int64_t f, bool read_only = false) {
    core::Frames frames;
    frames.start = f;
    frames.times = {time_of(f, start)};
    const kinora_rope how = rope();
    cache.pass.read_only = read_only;
    return cache.attention(core::token_table(frames, 1, 1, kArea), at_own_place(q(), f), at_own_place(k(), f),
                           of_frames(v(), {f}), &how);
  }
};

// The frames that frame f sees: the pinned ones and the latest three others; itself last.
std::vector<int64_t> seen_by(int64_t f, int64_t start, const std::vector<int64_t>& pinned) {
  std::vector<int64_t> out;
  int64_t left = 3;
  for (int64_t i = f; i >= start; --i)
    if (std::count(pinned.begin(), pinned.end(), i) || left-- > 0) out.insert(out.begin(), i);
  return out;
}
// Consecutive positions of these frames; the second shot begins eight later.
std::vector<double> consecutive(const std::vector<int64_t>& frames, int64_t start) {
  std::vector<double> out;
  for (size_t i = 0; i < frames.size(); ++i)
    out.push_back(static_cast<double>(i) + (frames[i] - start >= kShot ? 8 : 0));
  return out;
}
// Queries of the last frame see all keys up to their own.
Tensor mask_of(const std::vector<int64_t>& frames) {
  const auto n = static_cast<int64_t>(frames.size()) * kArea;
  return at::ones({kArea, n}, at::kBool).tril(n - kArea);
}

struct Far {
  int64_t start, frames;
  double bound;  // of float64's angles at these positions
};

// Frame 0 is pinned throughout, frame 4 until frame 9.
TEST(KvPositions, RelativeOnesFollowEachOtherHoweverLongTheVideoIs) {
  const at::NoGradGuard off;
  for (const uint32_t layout : {KINORA_ROPE_HALVES, KINORA_ROPE_PAIRS})
    for (const auto& [start, frames, bound] : {Far{0, 120, 1e-11}, Far{10'000'000, 14, 1e-7}}) {
      Stream near(core::json{{"window", 6}, {"positions", "relative"}}, layout, start),
          far(core::json{{"window", 6}}, layout, start);
      for (Stream* stream : {&near, &far})
        for (const int64_t f : {0, 4}) stream->cache.pin((start + f) * kArea, kArea);
      double apart = 0, of_absolute = 0;
      for (int64_t f = start; f < start + frames; ++f) {
        if (f == start + 9)
          for (Stream* stream : {&near, &far}) stream->cache.unpin((start + 4) * kArea, kArea);
        if (f == start + 8) near.cache.restore(near.cache.save());
        const Tensor looked = near(f, true), made = near(f);
        const auto seen =
            seen_by(f, start, f < start + 9 ? std::vector{start, start + 4} : std::vector{start});
        const auto at = consecutive(seen, start);
        const Tensor want = test::masked_attention(rotated(of_frames(q(), {f}), layout, {at.back()}),
                                                   rotated(of_frames(k(), seen), layout, at),
                                                   of_frames(v(), seen), kScale, mask_of(seen));
        apart = test::worse(apart, worst(made, want));
        ASSERT_LT(apart, bound) << "frame " << f << ", layout " << layout;
        ASSERT_LT(worst(looked, made), 1e-12) << "read-only, frame " << f;
        of_absolute = test::worse(of_absolute, worst(far(f), want));
      }
      EXPECT_GT(of_absolute, 1e-2) << "equal positions prove nothing";
    }
}

// Of what is stored only the pinned frame precedes the second pass.
TEST(KvPositions, AreTheSameInASecondPassOverAFrame) {
  const at::NoGradGuard off;
  Stream stream(core::json{{"window", kArea}, {"positions", "relative"}});
  stream.cache.pin(0, kArea);
  for (int64_t f = 0; f < 6; ++f) {
    const Tensor first = stream(f);
    EXPECT_LT(worst(stream(f), first), 1e-12) << f;
  }
}

TEST(KvPositions, OfAStreamWithoutGapsAreThoseThatItHas) {
  const at::NoGradGuard off;
  Stream relative(core::json{{"window", 6}, {"positions", "relative"}}), absolute(core::json{{"window", 6}});
  for (int64_t f = 0; f < 12; ++f) EXPECT_TRUE(at::equal(relative(f), absolute(f))) << f;
}

TEST(KvPositions, RelativeOnesNeedAModelThatDescribesItsRotation) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"positions", "relative"}});
  EXPECT_THAT(test::refusal([&] { cache.forward(0, 2); }),
              HasSubstr("attention 'self': the model does not describe its rotary positions"));
  Stream stream(core::json{{"positions", "relative"}});
  stream(0);
  stream.layout = 7;
  EXPECT_THAT(test::refusal([&] { stream(1); }), HasSubstr("a rotation of halves or pairs"));
  stream.layout = KINORA_ROPE_HALVES;
  for (const int64_t column : {KINORA_TOKEN_ROW, KINORA_TOKEN_COL, KINORA_TOKEN_FRAME}) {
    stream.column = column;
    EXPECT_THAT(test::refusal([&] { stream(1); }), HasSubstr("first axis is time, of column TIME or INDEX"));
  }
  Stream tokens(core::json{{"positions", "relative"}});
  tokens.column = KINORA_TOKEN_INDEX;
  EXPECT_EQ(tokens(0).size(1), kArea) << "a position each";
}

// The nearest number of E4M3: three bits of mantissa, the least exponent is -6; an even mantissa for a tie.
float nearest_e4m3(float x) {
  if (x == 0) return 0;
  const int exponent = std::max(std::ilogb(x), -6);
  return std::ldexp(std::nearbyint(std::ldexp(x, 3 - exponent)), exponent - 3);
}

// x [B, S, heads, d] in E4M3, with a scale for each token and head: its largest magnitude / 448.
Tensor through_e4m3(const Tensor& x) {
  Tensor out = x.to(at::kFloat).contiguous().clone();
  const int64_t d = x.size(3);
  for (float* head = out.data_ptr<float>(); head != out.data_ptr<float>() + out.numel(); head += d) {
    float most = 0;
    for (int64_t i = 0; i < d; ++i) most = std::max(most, std::abs(head[i]));
    const float scale = std::max(most * static_cast<float>(1 / 448.0), 1e-30F);
    for (int64_t i = 0; i < d; ++i) head[i] = nearest_e4m3(head[i] / scale);
    for (int64_t i = 0; i < d; ++i) head[i] *= scale;
  }
  return out.to(at::kDouble);
}

TEST(KvCodes, AreTheNearestNumbersOfE4m3OfEachTokenAndHead) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"window", 4}, {"store", "fp8"}}), given(4);
  cache.pin(0, 1);
  given.pin(0, 1);
  double apart = 0, of_given = 0;
  for (int64_t i = 0; i < 9; ++i) {
    cache.pass.read_only = 1;
    const Tensor looked = cache.forward(i, i + 1);
    cache.pass.read_only = 0;
    if (i == 6) cache.restore(cache.save());
    const Tensor made = cache.forward(i, i + 1);
    EXPECT_TRUE(cache.end.codes);
    Tensor seen = at::zeros({1, i + 1}, at::kBool);
    for (int64_t j = 0; j <= i; ++j) seen[0][j] = j == 0 || j > i - 4;
    const auto all = [&](const Tensor& x) { return through_e4m3(x.narrow(1, 0, i + 1)); };
    const Tensor want = test::masked_attention(q().narrow(1, i, 1), all(k()), all(v()), kScale, seen);
    apart = test::worse(apart, worst(made, want));
    EXPECT_LT(worst(looked, made), 1e-12) << i;
    of_given = test::worse(of_given, worst(given.forward(i, i + 1), want));
  }
  EXPECT_LT(apart, 1e-6) << "the scale's product is rounded to float32 here";
  EXPECT_GT(of_given, 1e-3) << "unrounded keys prove nothing";
}

TEST(KvCodes, TakeAByteANumberAndAScaleAHead) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"store", "fp8"}}, 12);
  cache.forward(0, 12);
  EXPECT_EQ(cache.bytes(), 12 * kB * kH * 2 * (kD + 4)) << "tokens, samples, heads, k and v, width and scale";
}

TEST(KvCodes, MayHaveRelativePositions) {
  const at::NoGradGuard off;
  Stream stream(core::json{{"window", 6}, {"positions", "relative"}, {"store", "fp8"}});
  stream.cache.pin(0, kArea);
  for (int64_t f = 0; f < 5; ++f) stream(f);
  const auto seen = seen_by(5, 0, {0});
  std::vector<Tensor> keys;
  for (const int64_t f : seen) keys.push_back(through_e4m3(stream.at_own_place(k(), f)));
  keys[0] = rotated(keys[0], stream.layout, {2}, false);  // towards frame 3: frames 1 and 2 are gone
  const Tensor want = test::masked_attention(stream.at_own_place(q(), 5), at::cat(keys, 1),
                                             through_e4m3(of_frames(v(), seen)), kScale, mask_of(seen));
  EXPECT_LT(worst(stream(5), want), 1e-6);
  EXPECT_FALSE(stream.cache.end.codes) << "keys that are turned are no codes";
}

TEST(KvCodes, AreNotRestoredIntoACacheOfOtherOptions) {
  const at::NoGradGuard off;
  Kv codes(core::json{{"store", "fp8"}}), given;
  codes.forward(0, 3);
  given.forward(0, 3);
  EXPECT_THAT(test::refusal([&] { given.restore(codes.save()); }),
              HasSubstr("'k_scales.0.self' is not what"));
  EXPECT_THAT(test::refusal([&] { codes.restore(given.save()); }),
              HasSubstr("'k_scales.0.self' is not what"));
  EXPECT_EQ(codes.tokens() + given.tokens(), 6);
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
