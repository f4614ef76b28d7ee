// Samples of several shots on several ranks against one process.
#include <gtest/gtest.h>

#include "tests/support/training.hpp"

namespace kinora::core::shots_ranks {
namespace {

using test::Rank;

TEST(ShotTrainings, AreThoseOfOneProcessUnderEveryStrategy) {
  const std::string more = "batch = 2\nteacher_forcing = true\nshots = 2\nwindow = 2\n";
  for (const char* parallel : {"['balanced-sp']", "['cp-ulysses']", "['cp-ring']", "['tp']", "['fsdp']",
                               "['pp']", "['ddp', 'recompute']"})
    test::on_ranks(2, [&](const Rank& me) {
      me.launched();
      const auto together = test::trained(me, parallel, more);
      if (me.rank != 0) return;
      Rank::alone();
      const auto alone = test::trained({0, 1, me.folder, 0}, "['single']", more);
      ASSERT_EQ(together.size(), 3u) << parallel;
      for (size_t step = 0; step < 3; ++step)
        for (const char* name : {"loss", "gradient_norm"}) {
          const double want = alone.at(step).at(name).get<double>();
          EXPECT_NEAR(together[step].at(name).get<double>(), want, 1e-10 * want) << parallel << name << step;
        }
    });
}

}  // namespace
}  // namespace kinora::core::shots_ranks
