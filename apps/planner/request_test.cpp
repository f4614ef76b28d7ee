#include "apps/planner/request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core::plan {
namespace {

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
  EXPECT_EQ(own.failure().code, KINORA_UNSUPPORTED);
  EXPECT_THAT(own.failure().message, testing::HasSubstr("parallel/their-own has no model"));
  const auto known = layout_of(job_of({"ddp"}), p);
  ASSERT_TRUE(known) << known.failure().message;
  EXPECT_EQ((*known)->dp, 2);
  EXPECT_FALSE(*layout_of(job_of({"single"}), p));
}

TEST(PlanRequest, LatentsAreReadAsThreeSizes) {
  EXPECT_EQ(*parse_latent("21x90x160"), (LatentSize{21, 90, 160}));
  for (const char* wrong : {"", "21", "21x90", "21x90x", "21x90x160x2", "0x90x160", "axbxc"})
    EXPECT_FALSE(parse_latent(wrong)) << wrong;
}

}  // namespace
}  // namespace kinora::core::plan
