// Error recycling on several ranks: every rank holds the bank of one process, and the losses are that
// process's.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/training.hpp"

namespace kinora::core::recycling_ranks {
namespace {

using test::Rank;

TEST(RecyclingTrainings, AreThoseOfOneProcess) {
  const std::string plain = "batch = 4\nteacher_forcing = true\nloss = 'flow'\n",
                    more = plain + "error_recycling = { start = 1, buckets = 2, entries = 8 }\n";
  for (const char* parallel : {"['ddp']", "['fsdp']", "['tp']", "['balanced-sp']"})
    test::on_ranks(2, [&](const Rank& me) {
      me.launched();
      const auto together = test::trained(me, parallel, more);
      if (me.rank != 0) return;
      Rank::alone();
      const Rank one{0, 1, me.folder, 0};
      const auto alone = test::trained(one, "['single']", more),
                 without = test::trained(one, "['single']", plain);
      ASSERT_EQ(together.size(), 3u) << parallel;
      for (size_t step = 0; step < 3; ++step) {
        EXPECT_EQ(together[step].at("stored_errors"), alone.at(step).at("stored_errors")) << parallel << step;
        const auto loss = [step](const auto& of) { return of.at(step).at("loss").template get<double>(); };
        const double want = loss(alone), effect = std::abs(want - loss(without));
        // An error in bfloat16 may be rounded to either neighbour: a hundredth of what all errors change.
        EXPECT_LE(std::abs(loss(together) - want), step == 0 ? 1e-10 * want : 0.01 * effect)
            << parallel << step;
        EXPECT_EQ(effect > 1e-6 * want, step > 0) << parallel << step;
      }
    });
}

}  // namespace
}  // namespace kinora::core::recycling_ranks
