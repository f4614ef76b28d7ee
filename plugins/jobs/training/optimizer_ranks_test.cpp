// Optimizers that need whole parameters, under the strategies that cut them: losses, gradients and the
// parameters after each step, against one process.
#include <gtest/gtest.h>

#include "tests/support/equality.hpp"

namespace kinora {
namespace {

// The second step's loss would show a wrong first one. AdamW's eps as in other tests of strategies. Each of
// Muon's five iterations multiplies the smallest singular values, and what differs in them, by up to 3.4445:
// together by 485. So gradients that agree to 1e-10 give steps that agree to 1e-7.
void equal(int ranks, const std::vector<std::string>& strategies) {
  test::on_ranks(ranks, [&](const test::Rank& me) {
    for (const auto& parallel : strategies)
      test::equals_one_process(me,
                               {.parallel = parallel,
                                .rows = 2,
                                .cols = 2,
                                .steps = 2,
                                .optimizer = "{ use = 'muon', eps = 1e-4 }"},
                               1e-7);
  });
}

TEST(MuonUnderAStrategy, EqualsOneProcess) {
  equal(2, {"['ddp']", "['fsdp']", "['tp']", "['pp']", "['cp-ulysses']"});
}

TEST(MuonUnderAStrategy, EqualsOneProcessWhereTwoOfThemCut) {
  equal(4, {"[{ use = 'tp', size = 2 }, 'fsdp']", "[{ use = 'pp', size = 2 }, { use = 'tp', size = 2 }]"});
}

}  // namespace
}  // namespace kinora
