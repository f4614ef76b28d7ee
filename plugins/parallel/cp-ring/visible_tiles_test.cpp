// The tiles of a ring's attention against the rule itself, pair by pair, and how often the rule is asked.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/attention/visibility.hpp"
#include "kinora/ring_split.hpp"

namespace kinora {
namespace {

using at::Tensor;
using core::Frames;

constexpr uint32_t kOver[] = {KINORA_OVER_ALL, KINORA_OVER_SPACE, KINORA_OVER_TIME};

// In how many tiles each pair is visible, int64 [B, S, L].
Tensor shown(const VisibleTiles& tiles, int64_t B, int64_t S, int64_t L) {
  const Tensor out = at::zeros({B, S, L}, at::kLong);
  for (const auto& t : tiles) {
    const Tensor part = out.narrow(1, t.q_first, t.q_count).narrow(2, t.k_first, t.k_count);
    part.add_(t.mask.defined() ? t.mask.to(at::kLong) : at::ones({}, at::kLong));
  }
  return out;
}

// Expects that the tiles show exactly the pairs that the rule does, each once. Returns their pairs.
int64_t expect_rule(const Frames& rule, const Tensor& q, const Tensor& k, uint32_t over,
                    const std::string& what) {
  const auto see = [&](const Tensor& a, const Tensor& b) { return core::visible(rule, a, b, over); };
  const Tensor want = see(q, k);
  const auto tiles = visible_tiles(q, k, over, at::kCPU, see);
  EXPECT_TRUE(shown(tiles, want.size(0), q.size(1), k.size(1)).equal(want.to(at::kLong))) << what;
  return pairs_of(tiles);
}

TEST(VisibleTiles, ShowExactlyWhatTheRuleDoes) {
  for (const auto& rule :
       {Frames{}, Frames{.causal = true}, Frames{.streams = 2},
        Frames{.chunk = 2, .causal = true, .window = 2, .sink = 1}, Frames{.before = true}})
    for (const uint32_t over : kOver) {
      const Tensor table = padded_table(core::token_table(rule, 8, 5, 5), 3);
      expect_rule(rule, table, table, over, "over " + std::to_string(over));
    }
}

class Draw {
 public:
  explicit Draw(uint64_t seed) { at::manual_seed(seed); }
  int64_t operator()(int64_t below) const { return at::randint(below, {1}).item<int64_t>(); }
};

TEST(VisibleTiles, ShowExactlyWhatRandomRulesDoOnRandomTables) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Draw draw(seed);
    Frames rule{.streams = 1 + draw(2), .chunk = 1 + draw(3), .causal = draw(2) == 1};
    rule.window = draw(4), rule.sink = draw(3), rule.before = draw(2) == 1;
    if (draw(2) == 1) rule.cuts = {1, 3}, rule.pin = static_cast<Frames::Pin>(draw(3));
    std::vector<core::VideoSize> videos(static_cast<size_t>(1 + draw(3)));
    const int64_t area =
        draw(3) == 0 ? 100 : 4;  // of rows * cols: more, or fewer, tokens than a run's longest
    for (auto& v : videos) v = {2 * (1 + draw(3)), 1 + draw(area / 2), 1 + draw(3)};
    Tensor table = core::token_table(rule, videos, draw(4));
    table = padded_table(table, (4 - table.size(1) % 4) % 4);
    const int64_t n = table.size(1), order = draw(4);
    if (order == 1) table = table.index_select(1, zigzag_order(n, 2));
    if (order == 2) table = table.index_select(1, at::randperm(n));
    if (draw(4) == 0) table = at::cat({table, table.index_select(1, at::randperm(n))});
    const auto parts = table.chunk(draw(2) == 0 ? 1 : 2, 1);
    expect_rule(rule, parts.front(), parts.back(), kOver[draw(3)], "seed " + std::to_string(seed));
  }
}

// The part of a ring in order, as a rank holds it and as attention over time takes it.
TEST(VisibleTiles, OverTimeInTheOrderOfPlacesShowTheRule) {
  for (const auto& rule :
       {Frames{}, Frames{.causal = true}, Frames{.streams = 2},
        Frames{.chunk = 2, .causal = true, .window = 2, .sink = 1}, Frames{.before = true}})
    for (const auto& videos : {std::vector<core::VideoSize>{{4, 18, 16}}, {{2, 20, 17}, {4, 9, 13}}}) {
      Tensor table = core::token_table(rule, videos);
      table = padded_table(table, (4 - table.size(1) % 4) % 4);
      if (rule.causal) table = table.index_select(1, zigzag_order(table.size(1), 2));
      for (const Tensor& q : table.chunk(2, 1))
        for (const Tensor& k : table.chunk(2, 1)) {
          const auto placed = [](const Tensor& t) { return t.index_select(1, order_by_place(t)); };
          const int64_t pairs = expect_rule(rule, placed(q), placed(k), KINORA_OVER_TIME, "over time");
          EXPECT_LT(pairs, q.size(1) * k.size(1)) << "in pieces";
        }
    }
}

TEST(VisibleTiles, OverTimeAskAndMaskPairsOfNearPlacesAlone) {
  constexpr int64_t frames = 32, area = 1024, n = frames * area;
  for (const bool causal : {false, true}) {
    const Frames rule{.causal = causal};
    const Tensor own = core::token_table(rule, frames, 32, 32),
                 table = own.index_select(1, order_by_place(own));
    int64_t asked = 0, seen = 0, pairs = 0;
    for (const auto& t :
         visible_tiles(table, table, KINORA_OVER_TIME, at::kCPU, [&](const Tensor&a, const Tensor&b) {
           asked += a.size(1) * b.size(1);
           return core::visible(rule, a, b, KINORA_OVER_TIME);
         })) {
      seen += t.mask.defined() ? t.mask.sum().item<int64_t>() : t.q_count * t.k_count;
      pairs += t.q_count * t.k_count;
    }
    EXPECT_EQ(seen, area * (causal ? frames * (frames + 1) / 2 : frames * frames));
    EXPECT_LE(pairs, 256 * n);
    EXPECT_LE(asked, 2 * 256 * n);
  }
}

TEST(VisibleTiles, OfACausalOrderMultiplyFewInvisiblePairs) {
  const Tensor table = core::token_table({.before = true}, 2000, 1, 1);
  EXPECT_LT(expect_rule({.before = true}, table, table, KINORA_OVER_ALL, "before"),
            2000 * 2001 / 2 + 2000 * 128);
}

TEST(VisibleTiles, AskTheRuleOfLongSequencesForFewPairs) {
  constexpr int64_t frames = 256, area = 1024, n = frames * area;
  struct Case {
    Frames rule;
    core::VideoSize size;
    int64_t visible, mask;  // expected pairs, most bytes of masks
  };
  for (const auto& [rule, size, visible, mask] :
       {Case{{}, {frames, 32, 32}, n * n, 0},
        Case{{.causal = true}, {frames, 32, 32}, frames * (frames + 1) / 2 * area * area, 0},
        Case{{.before = true}, {n, 1, 1}, n * (n + 1) / 2, 256 * n}}) {
    const Tensor table = core::token_table(rule, {size});
    int64_t asked = 0, seen = 0, bytes = 0;
    for (const auto& t :
         visible_tiles(table, table, KINORA_OVER_ALL, at::kCPU, [&](const Tensor&a, const Tensor&b) {
           asked += a.size(1) * b.size(1);
           return core::visible(rule, a, b, KINORA_OVER_ALL);
         })) {
      seen += t.mask.defined() ? t.mask.sum().item<int64_t>() : t.q_count * t.k_count;
      bytes += t.mask.defined() ? t.mask.numel() : 0;
    }
    EXPECT_EQ(seen, visible);
    EXPECT_LE(bytes, mask);
    EXPECT_LT(asked, n * n / 5000);
  }
}

}  // namespace
}  // namespace kinora
