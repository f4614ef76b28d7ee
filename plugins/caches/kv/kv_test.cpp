// cache/kv against attention with an explicit mask over all tokens, in float64: what a query sees is counted
// here token by token, without a cache.
#include "plugins/caches/kv/kv_testing.hpp"

namespace kinora::kv_test {
namespace {

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

// A host of a later minor appends columns to the tables.
TEST(KvCache, KeepsColumnsThatItDoesNotKnowWithTheirTokens) {
  const at::NoGradGuard off;
  const auto widened = [](const Tensor& table) {
    return at::cat({table, 7 * table.narrow(2, KINORA_TOKEN_INDEX, 1) + 3}, 2);
  };
  Kv narrow(3), wide(3), restored(3);
  for (Kv* cache : {&narrow, &wide}) cache->pin(0, 2);
  for (int64_t first = 0; first < 9; ++first) {
    core::Frames frames;
    frames.start = first;
    const Tensor table = core::token_table(frames, 1, 1, 1);
    Kv& now = first < 6 ? wide : restored;
    EXPECT_EQ(
        worst(now.attention(widened(table), first, first + 1), narrow.attention(table, first, first + 1)), 0)
        << first;
    EXPECT_TRUE(now.end.k_table.equal(widened(narrow.end.k_table))) << first << ": " << now.end.k_table;
    if (first == 5) restored.restore(wide.save());
  }
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
  EXPECT_EQ(cache.bytes(), 0) << "no token is left";
  EXPECT_EQ(worst(cache.forward(0, 3), Kv().forward(0, 3)), 0) << "a session that begins again";
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
}  // namespace kinora::kv_test
