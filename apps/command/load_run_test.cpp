#include "apps/command/load_run.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

using ::testing::HasSubstr;

// One table stands for both jobs, so both have its options.
TEST(SetValue, ASetOfOneOfTwoExpertsNamesTheirJob) {
  auto document =
      core::or_throw(core::Document::parse("[[job]]\nname = 'dit'\nkind = 'train'\nexpert = 'both'\n"
                               "[[job]]\nname = 'one'\nkind = 'train'\n",
                               "run.toml"));
  for (const char* job : {"dit-high", "dit-low"})
    EXPECT_EQ(
        set_value(document, std::string(job) + ".optimizer.beta=0.9").failure().message,
        fmt::format("--set {0}.optimizer.beta: job 'dit' makes {0} and its other expert (expert = \"both\"), "
                    "which have the same options; set dit.optimizer.beta, or write two jobs, expert = "
                    "\"high\" and expert = \"low\"",
                    job));
  for (const char* job : {"one-high", "dit-first", "dit-"})
    EXPECT_THAT(set_value(document, std::string(job) + ".steps=3").failure().message, HasSubstr("has no job '"));
  EXPECT_TRUE(set_value(document, "dit.steps=3"));
}

}  // namespace
}  // namespace kinora
