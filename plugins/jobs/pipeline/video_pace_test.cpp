#include "plugins/jobs/pipeline/video_pace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
constexpr VideoPace::Clock::time_point kStart{};
constexpr double kClose = 1e-6;  // seconds

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
    pace.end(key, 10, kStart + seconds(10));
  }
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 5, kClose)
      << "as long as the others, at 2 s of video a second";
  pace.begin("still", "/videos/still.mp4", 1000, kStart + seconds(10));
  pace.look(kStart + seconds(11));
  EXPECT_THAT(asked, ElementsAre()) << "a short one is not asked for";
  pace.look(kStart + seconds(20));
  pace.look(kStart + seconds(21));
  EXPECT_THAT(asked, ElementsAre("/videos/still.mp4")) << "once";
  EXPECT_THAT(pace.at_work(), ElementsAre("still (3:00 min long)")) << "no clip has ended";
  pace.reach("still", 80, kStart + seconds(50));
  EXPECT_NEAR(pace.left(kStart + seconds(50)), 50, kClose) << "100 s of 200 in 50 s";
  EXPECT_EQ(pace.text(kStart + seconds(50)), "50 s left, 2.0x real time");
  EXPECT_THAT(pace.at_work(), ElementsAre("still (1:20 min of 3:00 min)"));
  pace.end("still", 180, kStart + seconds(100));
  EXPECT_EQ(pace.text(kStart + seconds(100)), "2.0x real time");
  EXPECT_THAT(pace.at_work(), ElementsAre());
}

TEST(VideoPace, AnUnknownLengthIsThatOfTheBytes) {
  VideoPace pace(7000, 5, {}, kStart);
  for (const char* key : {"a", "b", "c"}) pace.begin(key, key, 1000, kStart);
  EXPECT_EQ(pace.text(kStart + seconds(5)), "time left not known yet");
  EXPECT_THAT(pace.at_work(), ElementsAre("a", "b", "c"));
  pace.end("a", 20, kStart + seconds(10));
  pace.end("b", 0, kStart + seconds(20));
  EXPECT_NEAR(pace.left(kStart + seconds(20)), 50, kClose) << "5000 bytes are 100 s at 2 a second";
  pace.skip(2000);
  pace.end("c", 20, kStart + seconds(30));
  EXPECT_NEAR(pace.left(kStart + seconds(30)), 20, kClose) << "a copy is no work";
  pace.end("of an earlier run", 5, kStart + seconds(31));
  pace.reach("of an earlier run", 5, kStart + seconds(32));
  EXPECT_NEAR(pace.left(kStart + seconds(32)), 18, kClose);
}

TEST(VideoPace, WhatFailedIsNoWorkDone) {
  VideoPace pace(3000, 3, {}, kStart);
  for (const char* key : {"good", "bad", "later"}) pace.begin(key, key, 1000, kStart);
  pace.drop("bad", kStart + seconds(1));
  EXPECT_EQ(pace.text(kStart + seconds(1)), "time left not known yet");
  pace.end("good", 20, kStart + seconds(10));
  EXPECT_NEAR(pace.left(kStart + seconds(10)), 10, kClose) << "20 s at 2 a second";
  pace.reach("later", 5, kStart + seconds(20));
  pace.drop("later", kStart + seconds(25));
  EXPECT_EQ(pace.text(kStart + seconds(25)), "1.0x real time") << "25 s, and no video is left";
}

// 1000 s of video: 90 s say little, 100 s say enough.
TEST(VideoPace, TheRestIsEstimatedFromATenthOn) {
  VideoPace pace(1000, 4, {}, kStart);
  for (const char* key : {"a", "b", "c"}) pace.begin(key, key, key[0] == 'c' ? 10 : 45, kStart);
  pace.end("a", 45, kStart + seconds(45));
  pace.end("b", 45, kStart + seconds(90));
  EXPECT_EQ(pace.left(kStart + seconds(90)), 0);
  EXPECT_EQ(pace.text(kStart + seconds(90)), "time left not known yet, 1.0x real time");
  pace.end("c", 10, kStart + seconds(100));
  EXPECT_NEAR(pace.left(kStart + seconds(100)), 900, kClose);
}

TEST(VideoPace, OneOfSeveralVideosSaysLittleAndTheOnlyOneATenthOfIt) {
  VideoPace pace(4000, 4, {}, kStart);
  for (const char* key : {"a", "b"}) pace.begin(key, key, 1000, kStart);
  pace.end("a", 40, kStart + seconds(20));
  EXPECT_EQ(pace.text(kStart + seconds(20)), "time left not known yet, 2.0x real time");
  pace.end("b", 40, kStart + seconds(40));
  EXPECT_EQ(pace.text(kStart + seconds(40)), "40 s left, 2.0x real time");

  VideoPace film(
      1000, 1, [](const std::string&) { return 1000.0; }, kStart);
  film.begin("film", "film", 1000, kStart);
  film.look(kStart + seconds(10));
  film.reach("film", 99, kStart + seconds(99));
  EXPECT_EQ(film.left(kStart + seconds(99)), 0);
  film.reach("film", 100, kStart + seconds(100));
  EXPECT_NEAR(film.left(kStart + seconds(100)), 900, kClose);
}

TEST(VideoPace, TheTimeLeftNeverGrowsWhileNothingEnds) {
  VideoPace pace(
      4000, 4, [](const std::string&) { return 3600.0; }, kStart);
  for (const char* key : {"a", "b", "c"}) pace.begin(key, key, 1000, kStart);
  pace.end("a", 30, kStart + seconds(30));
  pace.end("b", 30, kStart + seconds(60));
  double before = pace.left(kStart + seconds(60));
  EXPECT_NEAR(before, 60, kClose);
  pace.begin("d", "d", 1000, kStart + seconds(61));
  for (int second = 61; second < 600; ++second) {
    pace.look(kStart + seconds(second));
    const double left = pace.left(kStart + seconds(second));
    EXPECT_LE(left, before) << second;
    before = left;
  }
  EXPECT_EQ(pace.text(kStart + seconds(90)), "30 s left, 0.7x real time");
  EXPECT_EQ(pace.text(kStart + seconds(130)), "time left not known yet, 0.5x real time") << "it has passed";
  EXPECT_EQ(pace.text(kStart + seconds(1300)), "time left not known yet") << "0.0x says nothing";
}

TEST(VideoPace, InputsWithoutALengthHaveNone) {
  VideoPace pace(0, 2, {}, kStart);
  pace.begin("picture", "a.png", 0, kStart);
  pace.end("picture", 0, kStart + seconds(1));
  EXPECT_EQ(pace.text(kStart + seconds(5)), "");
}

}  // namespace
}  // namespace kinora::core
