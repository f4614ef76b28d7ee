// Error recycling on several ranks: every rank holds the bank of one process, and the losses are that
// process's.
#include <gtest/gtest.h>

#include "tests/support/training.hpp"

namespace kinora::core::recycling_ranks {
namespace {

using test::Rank;

TEST(RecyclingTrainings, AreThoseOfOneProcess) {
  const std::string more =
      "batch = 4\nteacher_forcing = true\nloss = 'flow'\n"
      "error_recycling = { start = 1, buckets = 2, entries = 8 }\n";
  for (const char* parallel : {"['ddp']", "['fsdp']", "['tp']", "['balanced-sp']"})
    test::on_ranks(2, [&](const Rank& me) {
      me.launched();
      const auto together = test::trained(me, parallel, more);
      if (me.rank != 0) return;
      Rank::alone();
      const auto alone = test::trained({0, 1, me.folder, 0}, "['single']", more);
      ASSERT_EQ(together.size(), 3u) << parallel;
      for (size_t step = 0; step < 3; ++step) {
        EXPECT_EQ(together[step].at("stored_errors"), alone.at(step).at("stored_errors")) << parallel << step;
        // An error in bfloat16 may be rounded to either neighbour.
        const double want = alone.at(step).at("loss").get<double>();
        EXPECT_NEAR(together[step].at("loss").get<double>(), want, (step == 0 ? 1e-10 : 1e-3) * want)
            << parallel << step;
      }
    });
}

}  // namespace
}  // namespace kinora::core::recycling_ranks
