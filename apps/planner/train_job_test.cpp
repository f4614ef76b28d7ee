#include "apps/planner/train_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core::plan {
namespace {

using testing::HasSubstr;

JobSpec job_of(const std::vector<std::string>& strategies) {
  JobSpec job;
  job.name = "dit";
  job.options = {{"accumulate", 1}};
  for (const auto& name : strategies) job.components.push_back({"parallel", "parallel/" + name, {}, "", {}});
  return job;
}

// As data parallelism it would get a wrong price.
TEST(PlanRequest, AStrategyThatIsNotKnownIsNotSimulated) {
  Problem p;
  p.cluster = *parse_cluster("1x2xH100");
  p.batch = 4;
  const auto own = layout_of(job_of({"ddp", "their-own"}), p);
  ASSERT_FALSE(own);
  EXPECT_EQ(own.failure().code, KINORA_ERROR_UNSUPPORTED);
  EXPECT_THAT(own.failure().message, HasSubstr("parallel/their-own has no model"));
  const auto known = layout_of(job_of({"ddp"}), p);
  ASSERT_TRUE(known) << known.failure().message;
  EXPECT_EQ((*known)->dp, 2);
  EXPECT_FALSE(*layout_of(job_of({"single"}), p));
}

TEST(PlanRequest, ADistillJobIsNotPlanned) {
  ComponentSpec train, distill;
  train.name = "train", distill.name = "distill";
  RunFile run;
  run.jobs.resize(2);
  run.jobs[0].name = "dit", run.jobs[0].kind = &train;
  run.jobs[1].name = "few", run.jobs[1].kind = &distill;
  EXPECT_EQ((*train_job(run, ""))->name, "dit");
  const auto few = train_job(run, "few");
  ASSERT_FALSE(few);
  EXPECT_THAT(few.failure().message, HasSubstr("job 'few' is of kind distill"));
}

TEST(PlanRequest, LatentsAreReadAsThreeSizes) {
  EXPECT_EQ(*parse_latent("21x90x160"), (LatentSize{21, 90, 160}));
  for (const char* wrong : {"", "21", "21x90", "21x90x", "21x90x160x2", "0x90x160", "axbxc"})
    EXPECT_FALSE(parse_latent(wrong)) << wrong;
}

TEST(PlanWrite, ReplacesAJobsValuesAndNothingElse) {
  const std::string before = R"([run]
name = "x"  # parallel = 1

[[job]]
name = "other"
parallel = ["single"]

[[job]]
name = "dit"
parallel = [  # of ] two
  "single",
  { use = "recompute", every = 2 },
]
batch = 8
)";
  const auto after = with_values(
      before, "dit",
      {{"parallel", R"(parallel = [{ use = "tp", size = 2 }])"}, {"accumulate", "accumulate = 4"}});
  ASSERT_TRUE(after) << after.failure().message;
  EXPECT_EQ(*after, R"([run]
name = "x"  # parallel = 1

[[job]]
name = "other"
parallel = ["single"]

[[job]]
name = "dit"
accumulate = 4
parallel = [{ use = "tp", size = 2 }]
batch = 8
)");
  EXPECT_THAT(with_values(before, "none", {{"a", "a = 1"}}).failure().message, HasSubstr("no job 'none'"));
}

}  // namespace
}  // namespace kinora::core::plan
