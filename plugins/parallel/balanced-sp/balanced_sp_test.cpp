#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/attention/visibility.hpp"
#include "plugins/parallel/balanced-sp/pairs.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
using test::Trial;

core::Frames forcing(int64_t chunk, int64_t window = 0, int64_t sink = 0, int64_t first_chunk = 0) {
  core::Frames out;
  out.streams = 2;
  out.chunk = chunk;
  out.window = window;
  out.sink = sink;
  out.first_chunk = first_chunk;
  return out;
}

Trial trial(const std::string& model, core::Frames rule, int64_t frames, const std::string& more = "") {
  Trial t;
  t.parallel = "['balanced-sp'" + more + "]";
  t.model = model;
  t.rule = std::move(rule);
  t.frames = frames;
  t.steps = 1;
  return t;
}

TEST(BalancedSp, EqualsOneProcessUnderTeacherForcing) {
  for (const int size : {2, 4, 8})
    test::on_ranks(size, [](const Rank& me) {
      Trial whole = trial(test::models::dit(8), forcing(2), 32);
      whole.steps = 3;
      whole.rows = whole.cols = 2;
      if (me.size == 8) whole.parallel = "[{ use = 'balanced-sp', size = 4 }, 'ddp']";
      test::equals_one_process(me, whole);
      // 5 frames of 2 x 3 tokens and their copies: neither frames nor pairs divide
      test::equals_one_process(me, trial(test::models::dit(4, 2), forcing(2, 2, 1), 10, ", 'recompute'"));
    });
}

TEST(BalancedSp, EqualsOneProcessForEveryModelAndRule) {
  test::on_ranks(4, [](const Rank& me) {
    const core::Frames causal = [] {
      core::Frames out;
      out.causal = true;
      out.chunk = 2;
      return out;
    }();
    test::equals_one_process(me, trial(test::models::kStDit, forcing(1), 6));
    test::equals_one_process(me, trial(test::models::kWan, forcing(2, 0, 0, 1), 6));
    test::equals_one_process(me, trial(test::models::kCosmos, forcing(1), 2));  // one frame and its copy
    test::equals_one_process(me, trial(test::models::dit(3), causal, 5));
    test::equals_one_process(me, trial(test::models::dit(4), {}, 1));
    Trial naive = trial(test::models::dit(4), forcing(2), 10);
    naive.parallel = "[{ use = 'balanced-sp', layout = 'naive' }]";
    test::equals_one_process(me, naive);
    Trial single = trial(test::models::dit(4), forcing(2), 6);
    single.precision = "fp32";
    test::equals_one_process(me, single);
  });
}

std::vector<Load> loads(const Tensor& table, const Owners& owners, int64_t P) {
  Tensor rows = at::full({1, owners.padding, table.size(2)}, -1, table.options());
  return loads_of(at::cat({table, rows}, 1).index_select(1, owners.order), P);
}

TEST(BalancedSp, GivesEveryRankTheLossAndTheFramesOfItsStretchOfTime) {
  const Tensor table = core::token_table(forcing(4), 64, 3, 5);  // 32 frames and their copies
  for (const int64_t P : {2, 4, 8}) {
    for (const auto& load : loads(table, own_pairs(table, P, 1), P)) {
      EXPECT_EQ(load.tokens, 64 * 15 / P);
      EXPECT_EQ(load.loss_tokens, 32 * 15 / P);
      EXPECT_EQ(load.frames, 32 / P);
    }
    const auto naive = loads(table, own_runs(table, P, 1), P);
    for (int64_t r = 0; r < P; ++r) {
      EXPECT_EQ(naive[static_cast<size_t>(r)].loss_tokens, r < P / 2 ? 0 : 64 * 15 / P) << "rank " << r;
      EXPECT_EQ(naive[static_cast<size_t>(r)].frames, 64 / P) << "twice as many to encode";
    }
  }
}

// The same for the ranks' links: rank r has the r-th span of 8 frames, clean followed by noisy.
TEST(BalancedSp, TheLinkSplitsByTheLayoutThatIsAskedFor) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      const int64_t half = 8 * 6, each = half / me.size;
      const auto own = [&](const std::string& how) {
        return test::own_tokens(me, "[" + how + "]", forcing(2), 16, 2, 3);
      };
      const Tensor clean = at::arange(me.rank * each, (me.rank + 1) * each);
      EXPECT_TRUE(own("'balanced-sp'").equal(at::cat({clean, clean + half})));
      EXPECT_TRUE(own("{ use = 'balanced-sp', layout = 'naive' }")
                      .equal(at::arange(2 * me.rank * each, 2 * (me.rank + 1) * each)));
    });
}

// Any sizes: every token once, both copies of a pair on one rank, and the ranks' pairs differ only by
// the padding at the end.
TEST(BalancedSp, NeverPartsAPair) {
  const std::vector<std::vector<core::VideoSize>> rows = {
      {{2, 1, 1}}, {{10, 3, 7}}, {{14, 2, 2}}, {{6, 3, 5}, {2, 7, 1}, {8, 2, 3}}};
  for (const auto& videos : rows)
    for (const int64_t P : {2, 3, 4, 8})
      for (const int64_t multiple : {1, 2, 3}) {
        const Tensor table = core::token_table(forcing(2), videos, P == 3 ? 5 : 0);
        const Owners owners = own_pairs(table, P, multiple);
        const int64_t all = table.size(1) + owners.padding, each = all / P;
        ASSERT_EQ(each * P, all);
        EXPECT_EQ(each % multiple, 0);
        EXPECT_TRUE(std::get<0>(owners.order.sort()).equal(at::arange(all, at::kLong)));
        std::map<std::vector<int64_t>, std::pair<int64_t, int64_t>>
            copies;  // rank and number of the copies of a position
        for (int64_t i = 0; i < all; ++i) {
          const int64_t token = owners.order[i].item<int64_t>();
          if (token >= table.size(1)) continue;
          const auto* t = table[0][token].data_ptr<int64_t>();
          if (t[KINORA_TOKEN_INDEX] < 0) continue;
          auto& seen = copies
                           .try_emplace({t[KINORA_TOKEN_SAMPLE], t[KINORA_TOKEN_TIME], t[KINORA_TOKEN_ROW],
                                         t[KINORA_TOKEN_COL]},
                                        i / each, 0)
                           .first->second;
          EXPECT_EQ(seen.first, i / each);
          ++seen.second;
        }
        for (const auto& [place, seen] : copies) EXPECT_EQ(seen.second, 2);
      }
}

}  // namespace
}  // namespace kinora
