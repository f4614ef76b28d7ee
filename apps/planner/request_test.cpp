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

// A latent that the model would reject at its first step is not planned.
TEST(PlanRequest, ALatentBeyondTheModelsLargestIsRefused) {
  const auto refused = [](const char* model, json options, const LatentSize& latent) {
    const auto shape = shape_of(model, options, latent, 8);
    return shape ? std::string() : shape.failure().message;
  };
  const json learnt{{"learnable_pos_embed", true}, {"max_size", {3, 12, 16}}};
  EXPECT_EQ(refused("model/dit", learnt, {3, 12, 16}), "");
  for (const auto& latent : {LatentSize{4, 12, 16}, LatentSize{3, 14, 16}, LatentSize{3, 12, 18}})
    EXPECT_THAT(refused("model/dit", learnt, latent),
                testing::AllOf(testing::HasSubstr("larger than the max_size of model/dit, 3 x 12 x 16"),
                               testing::HasSubstr("raise max_size")));
  EXPECT_EQ(refused("model/dit", {{"max_size", {3, 12, 16}}}, {9, 24, 32}), "")
      << "computed positions are unbounded";
  EXPECT_THAT(refused("model/cosmos", json::object(), {129, 4, 6}), testing::HasSubstr("128 x 240 x 240"));
  EXPECT_EQ(refused("model/wan", {{"max_size", {3, 12, 16}}}, {9, 24, 32}), "");
}

}  // namespace
}  // namespace kinora::core::plan
