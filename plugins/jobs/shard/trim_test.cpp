#include "plugins/jobs/shard/trim.hpp"

#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

json facts_of_clip() {
  return {{"frames", 240},
          {"fps", 24.0},
          {"duration_s", 10.0},
          {"first_frame", 1000},
          {"end_frame", 1240},
          {"start_s", 41.5},
          {"end_s", 51.5},
          {"width", 1280},
          {"scores", {{"filter.blur", 40}}},
          {"bin", {{"resolution", "720"}, {"aspect", "16_9"}, {"duration", "5_10"}}}};
}

TEST(TrimmedFacts, AreThoseOfTheFramesThatAreLeft) {
  const json all = facts_of_clip(), cut = trimmed_facts(all, "a", {24, 132});
  EXPECT_EQ(cut["trimmed"], (json{{"first", 24}, {"end", 132}, {"of", 240}}));
  EXPECT_EQ(cut["frames"], 108);
  EXPECT_EQ(cut["first_frame"], 1024);
  EXPECT_EQ(cut["end_frame"], 1132);
  EXPECT_DOUBLE_EQ(cut["duration_s"], 4.5);
  EXPECT_DOUBLE_EQ(cut["start_s"], 42.5);
  EXPECT_DOUBLE_EQ(cut["end_s"], 47.0);
  EXPECT_EQ(cut["bin"], (json{{"resolution", "720"}, {"aspect", "16_9"}, {"duration", nullptr}}));
  for (const char* name : {"fps", "width", "scores"}) EXPECT_EQ(cut[name], all[name]) << name;
  EXPECT_EQ(trimmed_facts(all, "a", {0, 240}), all) << "the whole clip";
}

TEST(TrimmedFacts, NeedFramesThatTheClipHas) {
  json estimated = facts_of_clip();
  estimated["frames_estimated"] = true;
  for (const json& facts : {facts_of_clip(), estimated, json{{"frames", 300}}, json::object()})
    EXPECT_NE(test::refusal([&] {
                (void)trimmed_facts(facts, "sea-0001", {0, 241});
              }).find("sea-0001"),
              std::string::npos)
        << facts;
}

}  // namespace
}  // namespace kinora::core
