#include "plugins/jobs/curation/fact_bounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

// "FACT >= VALUE" of each bound of the condition.
std::vector<std::string> bounds(const std::string& where) {
  std::vector<std::string> out;
  for (const FactBound& bound : bounds_of_where(where))
    out.push_back(bound.column + (bound.is_most ? " <" : " >") + (bound.is_strict ? " " : "= ") +
                  nlohmann::json(bound.value).dump() + " by " + bound.rule);
  return out;
}

TEST(FactBounds, AConditionOfOtherFormIsNone) {
  EXPECT_THAT(bounds("blur >= 20 and `my score` < 1e3 and label == 'sea' and not flow > 9 and 3 < 4"),
              testing::IsEmpty())
      << "it cannot be read";
  EXPECT_THAT(
      bounds("blur >= 20 and `my score` < 1e3 and label == 'sea' and not flow > 9 and (a > 1 or b > 2)"),
      testing::ElementsAre("blur >= 20.0 by blur >= 20", "my score < 1000.0 by `my score` < 1e3"));
  EXPECT_THAT(bounds(""), testing::IsEmpty());
}

TEST(FactBounds, OnlyAStageThatFiltersHasSome) {
  const auto count = [](const nlohmann::json& options) { return bounds_of_stage("glow", options).size(); };
  EXPECT_EQ(count({{"at_least", 0.1}}), 1U);
  EXPECT_EQ(count({{"at_least", 0.1}, {"at_most", 1e300}, {"mode", "on"}}), 1U);
  EXPECT_EQ(count({{"at_least", 0.1}, {"mode", "score"}}), 0U);
  EXPECT_EQ(count("none"), 0U);
}

}  // namespace
}  // namespace kinora::core
