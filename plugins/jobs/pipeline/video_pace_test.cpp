#include "plugins/jobs/pipeline/video_pace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
constexpr VideoPace::Clock::time_point kStart{};

TEST(VideoPace, TheTimeLeftIsThatOfTheLongVideoAndNotOfItsNumber) {
  std::vector<std::string> asked;
  VideoPace pace(
      3000, 3,
      [&](const std::string& url) {
        asked.push_back(url);
        return 180.0;
      },
      kStart);
  for (const char* key : {"a", "b"}) {
    pace.begin(key, key, 1000, kStart);
    pace.end(key, 10);
  }
  pace.begin("still", "/videos/still.mp4", 1000, kStart + seconds(10));
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 5, 1e-9) << "as long as the others, at 2 s of video a second";
  pace.look(kStart + seconds(11));
  EXPECT_THAT(asked, ElementsAre()) << "a short one is not asked for";
  pace.look(kStart + seconds(20));
  pace.look(kStart + seconds(21));
  EXPECT_THAT(asked, ElementsAre("/videos/still.mp4")) << "once";
  EXPECT_NEAR(pace.left(kStart + seconds(20)), 180, 1e-9) << "20 s in 20 s";
  pace.reach("still", 80);
  EXPECT_NEAR(pace.left(kStart + seconds(50)), 50, 1e-9) << "100 s of 200 in 50 s";
  EXPECT_EQ(pace.text(kStart + seconds(50)), "50 s left, 2.0x real time");
  EXPECT_THAT(pace.at_work(), ElementsAre("still (1:20 min of 3:00 min)"));
  pace.end("still", 180);
  EXPECT_EQ(pace.text(kStart + seconds(100)), "2.0x real time");
  EXPECT_THAT(pace.at_work(), ElementsAre());
}

TEST(VideoPace, AnUnknownLengthIsThatOfTheBytes) {
  VideoPace pace(5000, 4, {}, kStart);
  pace.begin("a", "a", 1000, kStart);
  pace.begin("b", "b", 1000, kStart);
  EXPECT_EQ(pace.text(kStart + seconds(5)), "time left not known yet");
  EXPECT_THAT(pace.at_work(), ElementsAre("a", "b"));
  pace.end("a", 20);
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 40, 1e-9) << "4000 bytes are 80 s at 2 a second";
  pace.skip(2000);
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 20, 1e-9) << "a copy is no work";
  pace.end("b", 0);
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 5, 1e-9) << "40 s have ended, 20 are left";
  pace.end("of an earlier run", 5);
  pace.reach("of an earlier run", 5);
}

TEST(VideoPace, WhatFailedIsNoWorkDone) {
  VideoPace pace(3000, 3, {}, kStart);
  for (const char* key : {"good", "bad", "later"}) pace.begin(key, key, 1000, kStart);
  pace.drop("bad");
  EXPECT_EQ(pace.text(kStart + seconds(1)), "time left not known yet");
  pace.end("good", 20);
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 10, 1e-9) << "20 s at 2 a second";
  pace.reach("later", 5);
  pace.drop("later");
  EXPECT_EQ(pace.text(kStart + seconds(25)), "1.0x real time") << "25 s, and no video is left";
}

// 1000 s of video: 40 s say little, 60 s say enough.
TEST(VideoPace, TheRestIsEstimatedFromATwentiethOn) {
  VideoPace pace(1000, 3, {}, kStart);
  pace.begin("a", "a", 40, kStart);
  pace.end("a", 40);
  EXPECT_EQ(pace.left(kStart + seconds(40)), 0);
  EXPECT_EQ(pace.text(kStart + seconds(40)), "time left not known yet, 1.0x real time");
  pace.begin("b", "b", 20, kStart);
  pace.end("b", 20);
  EXPECT_NEAR(pace.left(kStart + seconds(60)), 940, 1e-9);
}

TEST(VideoPace, InputsWithoutALengthHaveNone) {
  VideoPace pace(0, 2, {}, kStart);
  pace.begin("picture", "a.png", 0, kStart);
  pace.end("picture", 0);
  EXPECT_EQ(pace.text(kStart + seconds(5)), "");
}

}  // namespace
}  // namespace kinora::core
