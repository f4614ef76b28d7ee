// Distillation on several ranks against one process: rollouts, both networks' losses and their gradients.
#include "plugins/jobs/distill/distill_testing.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::core::distilling {
namespace {

using test::Rank;

std::vector<json> lines_of(const Rank& me, const std::string& parallel, const std::string& more) {
  const auto run = few_steps::distillation("steps = 3\nevery = 2\nparallel = " + parallel + "\n" + more);
  few_steps::distilled(*run, me.rank == 0);
  return me.rank == 0 ? run->metrics("few") : std::vector<json>();
}

// figures: of distribution matching, the critic's in each step and the student's in the second.
void expect_as_one_process(const std::vector<const char*>& strategies, const std::string& more,
                           size_t figures = 9) {
  for (const char* parallel : strategies)
    test::on_ranks(2, [&](const Rank& me) {
      me.launched();
      const auto together = lines_of(me, parallel, more);
      if (me.rank != 0) return;
      Rank::alone();
      const auto alone = lines_of({0, 1, me.folder, 0}, "['single']", more);
      ASSERT_EQ(together.size(), 3U);
      size_t compared = 0;
      for (size_t step = 0; step < 3; ++step)
        for (const char* name :
             {"loss", "gradient_norm", "score_distance", "critic", "critic_gradient_norm"}) {
          if (!alone[step].contains(name)) continue;
          const double want = alone[step].at(name);
          EXPECT_NEAR(together[step].at(name).get<double>(), want, 1e-8 * want) << parallel << step << name;
          ++compared;
        }
      EXPECT_EQ(compared, figures);
    });
}

TEST(DistillRanks, DistillAsOneProcessUnderEveryStrategy) {
  expect_as_one_process(
      {"['ddp']", "['fsdp']", "['tp']", "['cp-ulysses']", "['balanced-sp']", "['fsdp', 'recompute']"}, "");
}

TEST(DistillRanks, DistillAdaptersOnOneBaseAsOneProcess) {
  expect_as_one_process({"['fsdp', 'recompute']", "['tp']"},
                        "lora = 'rank=2 alpha=3 targets=linear_qkv,linear_proj'\n");
}

TEST(DistillRanks, DistillTheTeachersStepsAsOneProcess) {
  for (const char* method : {"ode", "consistency"})
    expect_as_one_process({"['fsdp', 'recompute']", "['balanced-sp']"},
                          fmt::format("method = '{}'\nteacher_steps = 3\n", method), 6);
}

}  // namespace
}  // namespace kinora::core::distilling
