// cp-ulysses against one process: every model, rule and number of heads.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/head_exchange.hpp"
#include "tests/support/context_trials.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Trial;

constexpr const char* kUlysses = "{ use = 'cp-ulysses' }";

TEST(Ulysses, EqualsOneProcess) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      for (const Trial& t : test::odd_trials(kUlysses)) test::equals_one_process(me, t);
    });
}

TEST(Ulysses, EqualsOneProcessOnEightRanks) {
  test::on_ranks(8, [](const Rank& me) {
    Trial t{.parallel = "['cp-ulysses']", .rule = {.causal = true}, .steps = 1};
    t.frames = 3;
    t.rows = 6;
    t.cols = 10;
    test::equals_one_process(me, t);
  });
}

// 4 ranks: 6 heads of queries and keys; 6 of 2; 6 of 3; 3 of 1; 12 of 3; 1 of 1.
TEST(Ulysses, TakesAnyNumberOfHeads) {
  test::on_ranks(4, [](const Rank& me) {
    for (const auto& [heads, kv] :
         {std::pair{6, 6}, std::pair{6, 2}, std::pair{6, 3}, std::pair{3, 1}, std::pair{12, 3}, std::pair{1, 1}}) {
      Trial t{.parallel = "['cp-ulysses']", .model = test::models::dit(heads, kv), .steps = 1};
      t.frames = 3;
      test::equals_one_process(me, t);
    }
  });
}

// No rank gets more heads than ceil(H / P), and no head of keys is copied without need.
TEST(Ulysses, HeadsAreCopiedAndFilledUpOnlyAsFarAsNeeded) {
  struct Case {
    int64_t ranks, heads, kv, copies, here, kv_here, zeros;
  };
  for (const auto& c : {Case{4, 8, 8, 1, 2, 2, 0}, Case{4, 8, 2, 2, 2, 1, 0}, Case{4, 8, 4, 1, 2, 1, 0},
                        Case{4, 6, 6, 1, 2, 2, 2}, Case{4, 6, 2, 3, 2, 2, 2}, Case{4, 12, 3, 4, 3, 3, 0},
                        Case{8, 6, 6, 1, 1, 1, 2}, Case{2, 6, 1, 2, 3, 1, 0}, Case{4, 1, 1, 1, 1, 1, 3}}) {
    kinora_group group{};
    group.size = c.ranks;
    const HeadExchange by(Group<at::Tensor>(&group), c.heads, c.kv);
    EXPECT_EQ(by.copies(), c.copies) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.here(), c.here) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.kv_here(), c.kv_here) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.zeros(), c.zeros) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.told().empty(), c.copies == 1 && c.zeros == 0);
  }
}

}  // namespace
}  // namespace kinora
