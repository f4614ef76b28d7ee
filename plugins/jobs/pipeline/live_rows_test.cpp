#include "plugins/jobs/pipeline/live_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

json stage(const char* name, double busy, double queue = 0, double rate = 1) {
  return {{"name", name}, {"busy", busy}, {"queue", queue}, {"rate", rate}, {"workers", 2}, {"limit", 2}};
}

const json kFigures{{"bound", "video.clips"},
                    {"memory", {{"used", 120 << 20}, {"bound", 1 << 30}}},
                    {"stages",
                     {stage("video.probe", 0), stage("filter.blur", 0.2), stage("filter.motion", 0.9),
                      stage("video.clips", 1.9, 12, 0.8), stage("embed.classic", 0.01)}}};

TEST(LiveRows, TheStageThatLimitsIsFirstAndIdleOnesShareARow) {
  const auto rows =
      live_rows(kFigures, "37 clips kept, 4 filtered", {"city (1:20 min of 3:00 min)", "hug"}, 100, false);
  EXPECT_THAT(rows,
              ElementsAre("  37 clips kept, 4 filtered", "  at work: city (1:20 min of 3:00 min); 1 waiting",
                          "> video.clips   busy  95% of the time   2/2 workers   0.8/s  12 wait  slowest",
                          "  filter.motion busy  45% of the time   2/2 workers   1.0/s",
                          "  filter.blur   busy  10% of the time   2/2 workers   1.0/s",
                          "  idle: video.probe, embed.classic", "  120 of 1024 MiB of samples"));
}

TEST(LiveRows, TheSlowestIsInColourOnlyWhereThereAreColours) {
  const std::vector<std::string> none;
  const auto coloured =
      live_rows(kFigures, "1 clip kept, 2 failed; of the inputs: 1 filtered, 1 failed", none, 100, true);
  EXPECT_EQ(coloured[0],
            "  1 clip kept, \033[31m2 failed\033[0m; of the inputs: 1 filtered, \033[31m1 failed\033[0m");
  EXPECT_THAT(coloured[1], testing::AllOf(StartsWith("\033[33m> video.clips"), testing::EndsWith("\033[0m")));
  for (const auto& row : live_rows(kFigures, "", none, 100, false)) EXPECT_THAT(row, Not(HasSubstr("\033")));
}

TEST(LiveRows, RowsFitTheTerminal) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("a-video-with-a-long-name-" + std::to_string(i));
  for (const size_t columns : {50U, 79U, 119U}) {
    const auto rows = live_rows(kFigures, std::string(200, 'x'), names, columns, false);
    for (const auto& row : rows) EXPECT_LE(row.size(), columns) << row;
    EXPECT_THAT(rows[1], StartsWith("  at work: a-video-with-a-long-name-0")) << columns;
    if (columns > 60) {
      EXPECT_THAT(rows[1], testing::EndsWith(" more; 12 waiting")) << columns;
    }
  }
}

TEST(LiveRows, InputsThatWaitAreNotAtWork) {
  json figures = kFigures;
  figures["stages"][3].update({{"in", 4}, {"out", 9}});
  figures["stages"][4]["queue"] = 7;  // clips
  std::vector<std::string> begun;
  for (int i = 0; i < 14; ++i) begun.push_back("video-" + std::to_string(i));
  EXPECT_EQ(live_rows(figures, "", begun, 100, false)[0], "  at work: video-0, video-1; 12 waiting");
}

TEST(LiveRows, SaysWhatElseLimits) {
  json figures = kFigures;
  figures["bound"] = "source";
  EXPECT_THAT(live_rows(figures, "", {}, 100, false).back(),
              HasSubstr("  reading the inputs limits the run"));
  figures["bound"] = "memory";
  EXPECT_THAT(live_rows(figures, "", {}, 100, false).back(),
              HasSubstr(" of 1024 MiB of samples; they limit the run"));
  figures["bound"] = "video.clips";
  figures["memory"]["used"] = 1 << 20;
  EXPECT_THAT(live_rows(figures, "", {}, 100, false).back(), StartsWith("  idle: "))
      << "there is enough memory";
  EXPECT_THAT(live_rows(json::object(), "", {}, 80, true), ElementsAre());
}

TEST(LiveRows, RatesAreOfTenSeconds) {
  RecentRates rates;
  double rate = 0;
  for (int second = 0; second <= 30; ++second) {  // ten samples at once, each ten seconds
    json figures{{"seconds", second}, {"stages", {{{"name", "a"}, {"in", second / 10 * 10}, {"rate", 7}}}}};
    rates.smooth(figures);
    rate = figures["stages"][0]["rate"];
    if (second == 0) {
      EXPECT_EQ(rate, 7) << "nothing came before";
    } else if (second >= 20) {
      EXPECT_DOUBLE_EQ(rate, 1) << second;
    }
  }
}

// One that is busy for a second is not the slowest, nor the one that the engine names for a second.
TEST(LiveRows, TheSlowestIsTheBusiestOfTenSeconds) {
  RecentRates rates;
  json figures;
  for (int second = 0; second <= 20; ++second) {
    const bool is_last = second == 20;
    figures = {{"seconds", second},
               {"bound", is_last ? "filter.blur" : "video.clips"},
               {"stages",
                {stage("filter.blur", is_last ? 2 : 0.4, 3), stage("video.clips", is_last ? 1 : 1.8),
                 stage("filter.motion", 0.9)}}};
    rates.smooth(figures);
  }
  const auto rows = live_rows(figures, "", {}, 100, false);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_THAT(rows[0], testing::AllOf(StartsWith("> video.clips   busy  86% of the time"),
                                      testing::EndsWith("slowest")));
  EXPECT_THAT(rows[1], StartsWith("  filter.motion busy  45% of the time"));
  EXPECT_THAT(rows[2], StartsWith("  filter.blur   busy  28% of the time"));
  figures["bound"] = "memory";
  rates.smooth(figures);
  EXPECT_EQ(figures["bound"], "memory");
}

TEST(LiveRows, OfEquallyBusyStagesTheOneThatTheEngineNamesIsTheSlowest) {
  RecentRates rates;
  json figures{{"seconds", 1}, {"bound", "b"}, {"stages", {stage("a", 2), stage("b", 1.995), stage("c", 2)}}};
  rates.smooth(figures);
  EXPECT_EQ(figures["bound"], "b");
  figures["stages"][2]["busy"] = 1.5, figures["stages"][1]["busy"] = 1.4;
  RecentRates others;
  others.smooth(figures);
  EXPECT_EQ(figures["bound"], "a");
}

TEST(LiveRows, OutcomesLeaveOutZeros) {
  EXPECT_EQ(outcomes_text(37, 0, 1, "clips"), "37 clips kept, 1 failed");
  EXPECT_EQ(outcomes_text(0, 2, 1, "inputs"), "2 inputs filtered, 1 failed");
  EXPECT_EQ(outcomes_text(0, 0, 1, "inputs"), "1 input failed");
  EXPECT_EQ(outcomes_text(0, 2, 1, ""), "2 filtered, 1 failed");
  EXPECT_EQ(outcomes_text(0, 0, 0, "clips"), "");
}

}  // namespace
}  // namespace kinora::core
