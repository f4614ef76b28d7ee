#include "shots/shot_detector.hpp"

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shots/cut_decision_testing.hpp"

namespace kinora::video {
namespace {

using testing::decided_cuts;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::NamedCuts;

constexpr double kRate = 10;

DetectorOptions named(const std::string& name) {
  DetectorOptions options;
  options.name = name;
  options.min_length = 0;
  return options;
}

// Runs a detector on ten frames per second; `make` turns each number into measures.
template <class F>
std::unique_ptr<ShotDetector> run(const DetectorOptions& options, const std::vector<double>& numbers,
                                  F&& make) {
  auto detector = make_detector(options, kRate);
  Moment now;
  for (size_t i = 0; i < numbers.size(); ++i) {
    now = {static_cast<int64_t>(i), static_cast<int64_t>(i) * 100000};
    detector->push(make(numbers[i]), now);
  }
  detector->finish(now);
  return detector;
}

// Measures with a content score of `score`, in the value channel only.
FrameMeasures content(double score) {
  FrameMeasures out;
  out.hsv.value = static_cast<uint64_t>(std::lround(score * 3000));
  out.hsv.pixels = 1000;
  return out;
}

TEST(ContentDetector, TakesAScoreAtTheThreshold) {
  const auto found = run(named("content"), {0, 26.999, 27, 3, 28}, content);
  EXPECT_THAT(found->cuts(), ElementsAre(2, 4));
  EXPECT_THAT(found->scores(), ElementsAre(0, 26.999, 27, 3, 28));
}

TEST(AdaptiveDetector, HoldsAScoreAgainstTheFramesAround) {
  auto options = named("adaptive");
  options.threshold = 3.0;
  // Around frame 3: 2, 4, 6, 8, mean 5; the 20 is 4 times as much. Around frame 8 all scores are 0.
  const auto found = run(options, {0, 2, 4, 20, 6, 8, 0, 0, 16, 0, 0, 0, 0}, content);
  EXPECT_THAT(found->cuts(), ElementsAre(3, 8));
  EXPECT_DOUBLE_EQ(found->scores()[3], 4.0);
  EXPECT_DOUBLE_EQ(found->scores()[8], 255.0);
  EXPECT_EQ(found->scores()[0], 0.0);
  EXPECT_EQ(found->scores()[12], 0.0) << "no window";
  options.min_content = 17;
  EXPECT_THAT(run(options, {0, 2, 4, 20, 6, 8, 0, 0, 16, 0, 0}, content)->cuts(), ElementsAre(3));
  options.min_length = 4;
  EXPECT_THAT(run(options, {0, 1, 1, 20, 1, 1, 1, 1}, content)->cuts(), IsEmpty());
  EXPECT_THAT(run(options, {0, 1, 1, 1, 20, 1, 1, 1}, content)->cuts(), ElementsAre(4));
}

// The newest frame is `window` ahead of the frame being decided; the shot's length must not be measured to
// it.
TEST(AdaptiveDetector, NoShotIsShorterThanTheShortest) {
  auto options = named("adaptive");
  options.threshold = 3.0, options.window = 3, options.min_length = 5;
  std::vector<double> video(30, 1);
  video[10] = 40, video[12] = 30;
  EXPECT_THAT(run(options, video, content)->cuts(), ElementsAre(10));
  video[12] = 1, video[15] = 30;
  EXPECT_THAT(run(options, video, content)->cuts(), ElementsAre(10, 15));
}

TEST(HistogramDetector, CutsWhereTheCorrelationFalls) {
  auto options = named("histogram");
  options.threshold = 0.05;
  options.min_length = 2;
  const auto measured = [](double correlation) {
    FrameMeasures out;
    out.correlation = correlation;
    return out;
  };
  const auto found = run(options, {1, 0.2, 0.95, 0.2, 0.9500001, -1}, measured);
  EXPECT_THAT(found->cuts(), ElementsAre(2, 5)) << "frames 1 and 3 come too soon";
}

TEST(HashDetector, CutsWhereBitsChange) {
  auto options = named("hash");
  options.threshold = 0.395;
  const auto measured = [](double distance) {
    FrameMeasures out;
    out.hash_distance = distance;
    return out;
  };
  EXPECT_THAT(run(options, {0.9, 0.395, 0.39, 1}, measured)->cuts(), ElementsAre(1, 3))
      << "the first frame has no previous one";
}

FrameMeasures bright(double mean) {
  FrameMeasures out;
  out.mean = mean;
  return out;
}

TEST(FadeDetector, CutsInTheDarkWhereTheBiasSays) {
  auto options = named("threshold");
  options.threshold = 12;
  const std::vector<double> video{90, 90, 40, 11, 5, 0, 5, 12, 90, 90};  // dark from 3 to 6
  for (const auto& [bias, cut] : {std::pair{-1.0, 3}, {-0.5, 4}, {0.0, 5}, {0.5, 6}, {1.0, 7}}) {
    options.fade_bias = bias;
    EXPECT_THAT(run(options, video, bright)->cuts(), ElementsAre(cut)) << bias;
  }
  options.min_length = 8;
  EXPECT_THAT(run(options, video, bright)->cuts(), IsEmpty());
}

TEST(FadeDetector, AVideoMayBeginAndEndInTheDark) {
  auto options = named("threshold");
  options.threshold = 12.9;  // 12
  const std::vector<double> video{0, 0, 0, 0, 12.5, 90, 90, 3, 3};
  EXPECT_THAT(run(options, video, bright)->cuts(), ElementsAre(2));
  options.final_cut = true;
  EXPECT_THAT(run(options, video, bright)->cuts(), ElementsAre(2, 7));
  options.fade = "ceiling";
  options.threshold = 80;
  options.min_length = 2;
  EXPECT_THAT(run(options, {20, 20, 90, 90, 90, 90, 20}, bright)->cuts(), ElementsAre(4));
  EXPECT_THAT(run(options, {90, 90, 90, 90, 20}, bright)->cuts(), ElementsAre(2))
      << "the video begins above the ceiling";
}

// Frames 4 to 7 are shown twice as long: the middle of the dark part is measured in time, not in frames.
TEST(FadeDetector, TheMiddleIsAPointInTime) {
  auto options = named("threshold");
  options.threshold = 12;
  auto detector = make_detector(options, kRate);
  const double means[] = {90, 90, 0, 0, 0, 0, 0, 0, 90};
  const int64_t tenths[] = {0, 1, 2, 3, 4, 6, 8, 10, 12};
  for (size_t i = 0; i < 9; ++i)
    detector->push(bright(means[i]), {static_cast<int64_t>(i), tenths[i] * 100000});
  EXPECT_THAT(detector->cuts(), ElementsAre(6))
      << "at 0.7 s the frame of 0.6 s is shown; the next begins at 0.8";
}

TEST(FixedDetector, CutsAtTheFirstFrameOfEveryStride) {
  auto options = named("fixed");
  options.stride = 0.25;
  EXPECT_THAT(run(options, std::vector<double>(11), content)->cuts(), ElementsAre(3, 5, 8, 10));
  options.stride = 0.1;
  EXPECT_THAT(run(options, std::vector<double>(4), content)->cuts(), ElementsAre(1, 2, 3));
  auto detector = make_detector(options, kRate);
  detector->push({}, {0, 0});
  detector->push({}, {1, 5'000'000});
  detector->push({}, {2, 5'050'000});
  EXPECT_THAT(detector->cuts(), ElementsAre(1)) << "a gap is one cut";
}

TEST(Detectors, AnUnknownNameIsRefused) {
  EXPECT_THROW(make_detector(named("magic"), kRate), std::invalid_argument);
}

TEST(DecidedCuts, AnyAllOrOne) {
  const std::vector<NamedCuts> found{{"a", {10, 50, 90}}, {"b", {11, 50, 70}}, {"c", {9, 50, 71}}};
  EXPECT_THAT(decided_cuts(found, "b", 0), ElementsAre(11, 50, 70));
  EXPECT_THAT(decided_cuts(found, "any", 0), ElementsAre(9, 10, 11, 50, 70, 71, 90));
  EXPECT_THAT(decided_cuts(found, "all", 0), ElementsAre(50));
  EXPECT_THAT(decided_cuts(found, "any", 1), ElementsAre(10, 50, 70, 90))
      << "the first named detector gives the position";
  EXPECT_THAT(decided_cuts(found, "all", 1), ElementsAre(10, 50));
  EXPECT_THAT(decided_cuts({{"a", {}}}, "any", 3), IsEmpty());
  EXPECT_THAT(decided_cuts({{"a", {0, 4}}}, "a", 0), ElementsAre(4));
}

}  // namespace
}  // namespace kinora::video
