#include "plugins/jobs/curation/usage.hpp"

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using nlohmann::json;

// The record adds in the order of the inputs, a run in the order in which clips end.
TEST(Usage, SumsAreTheSameInAnyOrder) {
  Usage there, back;
  double forward = 0, backward = 0;
  const auto facts = [](int i) {
    return json{{"usage", {{"ask", {{"requests", 1}, {"prompt_tokens", i}, {"cost", 0.0001 * i}}}}}};
  };
  for (int i = 1; i <= 5; ++i) {
    there.add(facts(i)), forward += 0.0001 * i;
    back.add(facts(6 - i)), backward += 0.0001 * (6 - i);
  }
  ASSERT_NE(forward, backward) << "the test would prove nothing";
  EXPECT_EQ(there.sums(), back.sums());
  EXPECT_EQ(there.sums(), (json{{"ask", {{"requests", 5}, {"prompt_tokens", 15}, {"cost", 0.0015}}}}));
}

}  // namespace
}  // namespace kinora::core
