// cp-2d against one process: every model, rule and odd size, and the positions of the tokens.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/ring_split.hpp"
#include "tests/support/equality.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Trial;

TEST(Grid, EqualsOneProcess) {
  test::on_ranks(4, [](const Rank& me) {
    for (const Trial& t : test::odd_trials("{ use = 'cp-2d', ulysses = 2 }")) test::equals_one_process(me, t);
    // A ring of one sends nothing.
    test::equals_one_process(me, {.parallel = "[{ use = 'cp-2d', ulysses = 4 }]", .steps = 1});
  });
}

TEST(Grid, EqualsOneProcessOnEightRanksWithAnyHeads) {
  test::on_ranks(8, [](const Rank& me) {
    for (const auto& [ulysses, heads, kv] : {std::tuple{2, 3, 3}, std::tuple{4, 6, 2}}) {
      Trial t{.parallel = "[{ use = 'cp-2d', ulysses = " + std::to_string(ulysses) + " }]",
              .model = test::models::dit(heads, kv),
              .rule = {.causal = true},
              .steps = 1};
      t.frames = 5;
      t.rows = 6;
      t.cols = 10;
      test::equals_one_process(me, t);
    }
  });
}

// LongVILA's zigzag assigns some chunks to two ranks and loses others
// unless size is ring or 2 ring: 8 ranks with rings of 2 lose two chunks of 16.
TEST(Grid, EveryTokenHasOneOwnerAtAnySizes) {
  for (const auto& [size, ring] : {std::pair{8, 2}, std::pair{16, 4}, std::pair{8, 4}, std::pair{4, 2},
                                   std::pair{6, 3}, std::pair{8, 8}, std::pair{12, 2}}) {
    const int64_t N = 2 * size * 3;  // tokens
    const at::Tensor order = zigzag_order(N, ring);
    at::Tensor owners = at::zeros({N}, at::kLong);
    for (int64_t rank = 0; rank < size; ++rank)
      owners.index_add_(0, order.narrow(0, rank * (N / size), N / size), at::ones({N / size}, at::kLong));
    EXPECT_TRUE(owners.equal(at::ones({N}, at::kLong))) << size << " ranks, rings of " << ring;
  }
}

TEST(Grid, RefusesGroupsThatDoNotDivideAndNamesWhatWould) {
  test::on_ranks(4, [](const Rank& me) {
    try {
      test::equals_one_process(me, {.parallel = "[{ use = 'cp-2d', ulysses = 3 }]"});
      FAIL() << "3 of 4";
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find("use ulysses = 2"), std::string::npos) << e.what();
    }
  });
}

}  // namespace
}  // namespace kinora
