// Tests the stage without Kinora: kinora/testing.hpp replaces the host.
#define KINORA_PLUGIN_NAME "brightness"
#define KINORA_PLUGIN_VERSION "0"
#include "brightness.cpp"

#include <gtest/gtest.h>

#include "kinora/testing.hpp"

namespace {

kinora::Sample grey(uint8_t level) {
  kinora::Sample s("film");
  s.set_tensor("frames", std::vector<uint8_t>(2 * 4 * 6 * 3, level), {2, 4, 6, 3}, KINORA_DL_UINT, 8);
  return s;
}

TEST(Brightness, DropsWhatIsDarkerThanTheBound) {
  kinora::testing::start();
  kinora::testing::Collector out;
  const kinora::testing::Run run;
  Brightness stage({.at_least = 0.4});
  stage.process(grey(255), out.emit(), run);
  stage.process(grey(51), out.emit(), run);
  ASSERT_EQ(out.emitted.size(), 1u);
  EXPECT_EQ(out.emitted[0].text("json"), R"({"scores":{"brightness":1.0}})");
  ASSERT_EQ(out.dropped.size(), 1u);
  EXPECT_EQ(out.dropped[0].rule, "brightness");
  EXPECT_DOUBLE_EQ(out.dropped[0].score, 0.2);
}

TEST(Brightness, KeepsAllToBeChosenLater) {
  kinora::testing::start();
  kinora::testing::Collector out;
  const kinora::testing::Run run;
  Brightness({.at_least = 0.4, .mode = "score"}).process(grey(0), out.emit(), run);
  ASSERT_EQ(out.emitted.size(), 1u);
  EXPECT_EQ(out.emitted[0].text("json"), R"({"scores":{"brightness":0.0}})");
}

}  // namespace
