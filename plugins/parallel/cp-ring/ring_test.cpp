// cp-ring against one process: every model, rule and odd size; the balance of its orders; its memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/attention/visibility.hpp"
#include "kinora/ring_split.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Trial;

TEST(Ring, EqualsOneProcess) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      for (const Trial& t : test::odd_trials("{ use = 'cp-ring' }")) test::equals_one_process(me, t);
    });
}

TEST(Ring, EqualsOneProcessInEitherOrderAndWithoutOverlap) {
  test::on_ranks(3, [](const Rank& me) {
    for (const char* options : {"order = 'contiguous'", "order = 'zigzag'", "overlap = false"}) {
      Trial t{.parallel = std::string("[{ use = 'cp-ring', ") + options + " }]", .steps = 1};
      t.model = test::models::dit(6, 2);
      t.rule.causal = true;
      t.frames = 5;
      t.rows = 6;
      t.cols = 10;
      test::equals_one_process(me, t);
    }
  });
}

TEST(Ring, EqualsOneProcessOnEightRanks) {
  test::on_ranks(8, [](const Rank& me) {
    Trial t{.parallel = "['cp-ring']", .rule = {.causal = true}, .steps = 1};
    t.frames = 3;
    t.rows = 6;
    t.cols = 10;
    test::equals_one_process(me, t);
  });
}

TEST(Ring, RefusesAVideoThatIsContinuedAndNamesWhatTakesIt) {
  test::on_ranks(2, [](const Rank& me) {
    for (const char* strategy : {"cp-ring", "cp-2d"}) try {
        test::equals_one_process(
            me, {.parallel = "['" + std::string(strategy) + "']", .rule = {.start = 2, .causal = true}});
        FAIL() << strategy;
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("use cp-ulysses"), std::string::npos) << e.what();
      }
  });
}

// Pairs that each of R ranks multiplies, of all pairs, for a token order.
std::vector<int64_t> loads(const at::Tensor& table, const core::Frames& rule, const at::Tensor& order,
                           int64_t R) {
  const at::Tensor all = table.index_select(1, order);
  std::vector<int64_t> out;
  for (const at::Tensor& q : all.chunk(R, 1)) {
    out.push_back(0);
    for (const at::Tensor& k : all.chunk(R, 1))
      out.back() += pairs_of(
          visible_tiles(q, k, KINORA_OVER_ALL, at::kCPU, [&](const at::Tensor& a, const at::Tensor& b) {
            return core::visible(rule, a, b, KINORA_OVER_ALL);
          }));
  }
  return out;
}

TEST(Ring, ZigzagBalancesACausalRuleAndARowDoesNot) {
  const core::Frames rule{.causal = true};
  for (const int64_t R : {2, 4, 8}) {
    const int64_t frames = 4 * R, area = 32, N = frames * area;
    const at::Tensor table = core::token_table(rule, frames, area, 1);
    const auto even = loads(table, rule, zigzag_order(N, R), R), row = loads(table, rule, at::arange(N), R);
    const auto [least, most] = std::minmax_element(even.begin(), even.end());
    EXPECT_EQ(*least, *most) << R << " ranks: as many pairs for each";
    EXPECT_GT(row.back(), (R == 2 ? 2 : 3) * row.front()) << R << " ranks";
    int64_t visible = 0;
    for (int64_t f = 1; f <= frames; ++f) visible += f * area * area;
    EXPECT_EQ(std::accumulate(even.begin(), even.end(), int64_t{0}), visible) << "and no invisible pair";
  }
}

TEST(Ring, AutoIsZigzagWhereTheRuleLooksBackAndARowElsewhere) {
  test::on_ranks(4, [](const Rank& me) {
    const auto own = [&](const core::Frames& rule) {
      return test::own_tokens(me, "['cp-ring']", rule, 8, 2, 2);
    };
    const int64_t r = me.rank, back = 7 - r;  // of 8 chunks of 4 tokens
    const at::Tensor zigzag = at::cat({at::arange(4 * r, 4 * r + 4), at::arange(4 * back, 4 * back + 4)});
    EXPECT_TRUE(own({.causal = true}).equal(zigzag));
    EXPECT_TRUE(own({}).equal(at::arange(8 * r, 8 * r + 8)));
  });
}

TEST(Ring, ZigzagOwnsEveryTokenOnce) {
  for (const int64_t R : {1, 2, 3, 4, 8, 16})
    EXPECT_TRUE(std::get<0>(zigzag_order(6 * R, R).sort()).equal(at::arange(6 * R))) << R;
}

}  // namespace
}  // namespace kinora
