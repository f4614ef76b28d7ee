#include "clips/clip_plan.hpp"

#include <gtest/gtest.h>

#include "kinora/bins.hpp"

namespace kinora::video {
namespace {

std::vector<Range> kept(const std::vector<PlannedClip>& plan) {
  std::vector<Range> out;
  for (const auto& clip : plan)
    if (!clip.too_short) out.push_back(clip.range);
  return out;
}

std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, int64_t frames, double fps,
                                    const PlanOptions& o, const std::vector<Range>& transitions = {}) {
  return plan_clips(cuts, FrameTimes(frames, fps, even_time(frames, fps)), o, transitions);
}

TEST(ClipPlan, LongShotsBecomeEqualPartsStridesOrTheirBeginning) {
  PlanOptions o;
  o.max_seconds = 10;
  EXPECT_EQ(kept(plan_clips({100}, 352, 10, o)),
            (std::vector<Range>{{0, 100}, {100, 184}, {184, 268}, {268, 352}}));
  o.long_shots = "stride";
  EXPECT_EQ(kept(plan_clips({100}, 352, 10, o)),
            (std::vector<Range>{{0, 100}, {100, 200}, {200, 300}, {300, 352}}));
  o.stride_seconds = 5;  // the last clip is the one that reaches the shot's end
  EXPECT_EQ(kept(plan_clips({}, 225, 10, o)),
            (std::vector<Range>{{0, 100}, {50, 150}, {100, 200}, {150, 225}}));
  o.stride_seconds = 12;
  EXPECT_EQ(kept(plan_clips({}, 225, 10, o)), (std::vector<Range>{{0, 100}, {120, 220}}));
  o.long_shots = "truncate";
  EXPECT_EQ(kept(plan_clips({100}, 352, 10, o)), (std::vector<Range>{{0, 100}, {100, 200}}));
}

TEST(ClipPlan, EdgesAndMinimaOfBothKinds) {
  PlanOptions o;
  o.edge_seconds = 0.5;
  o.min_seconds = 2;
  o.min_frames = 48;
  // At 24 frames/s: 60 - 24 = 36 frames are too few; 70 - 24 = 46 are 1.9 s; 72 - 24 = 48 are enough of both.
  const auto plan = plan_clips({60, 130, 202, 220}, 400, 24, o);
  ASSERT_EQ(plan.size(), 5u);
  EXPECT_EQ(plan[3].range, (Range{202, 220})) << "a shot that consists only of its edges is one clip";
  EXPECT_EQ(kept(plan), (std::vector<Range>{{142, 190}, {232, 388}}));
  o.min_frames = 49;
  EXPECT_EQ(kept(plan_clips({60, 130, 202, 220}, 400, 24, o)), (std::vector<Range>{{232, 388}}));
}

TEST(ClipPlan, FramesOfATransitionAreInNoClip) {
  const PlanOptions o;
  EXPECT_EQ(kept(plan_clips({100}, 200, 10, o, {{95, 106}})), (std::vector<Range>{{0, 95}, {106, 200}}));
  EXPECT_EQ(kept(plan_clips({100}, 200, 10, o, {{100, 106}})), (std::vector<Range>{{0, 100}, {106, 200}}));
  EXPECT_EQ(kept(plan_clips({100}, 200, 10, o, {{94, 100}})), (std::vector<Range>{{0, 94}, {100, 200}}));
  EXPECT_EQ(kept(plan_clips({50, 55}, 200, 10, o, {{48, 60}})), (std::vector<Range>{{0, 48}, {60, 200}}))
      << "a shot within a transition is none";
  EXPECT_EQ(kept(plan_clips({100}, 200, 10, o, {{20, 30}, {95, 106}, {150, 160}})),
            (std::vector<Range>{{0, 95}, {106, 200}}))
      << "a transition whose cut was joined again";
}

// For any options, clips of equal parts without edges cover each frame of the video once.
TEST(ClipPlan, EqualPartsCoverEveryFrameOnce) {
  for (const double most : {0.01, 0.3, 1.7, 50.0}) {
    PlanOptions o;
    o.max_seconds = most;
    int64_t at = 0;
    for (const auto& clip : plan_clips({3, 40, 41, 300}, 333, 30, o)) {
      EXPECT_EQ(clip.range.first, at);
      EXPECT_LE(clip.range.end - clip.range.first, std::max<int64_t>(1, static_cast<int64_t>(most * 30)));
      at = clip.range.end;
    }
    EXPECT_EQ(at, 333);
  }
}

std::string text(const Bin& b) {
  return b.resolution + " " + b.aspect.value_or("-") + " " + b.duration.value_or("-");
}

TEST(Bins, AreCosmos) {
  struct Case {
    int width, height;
    double seconds;
    const char* bin;
  };
  const Case cases[] = {{1280, 720, 5, "720 16_9 5_10"},      {1280, 720, 4.999, "720 16_9 -"},
                        {1920, 1080, 10, "1080 16_9 5_10"},   {1920, 1080, 10.01, "1080 16_9 10_30"},
                        {720, 1280, 30, "720 9_16 10_30"},    {719, 1280, 30.1, "lt_720 9_16 30_inf"},
                        {65, 100, 6, "lt_720 9_16 5_10"},     {66, 100, 6, "lt_720 3_4 5_10"},
                        {88, 100, 6, "lt_720 3_4 5_10"},      {89, 100, 6, "lt_720 1_1 5_10"},
                        {116, 100, 6, "lt_720 1_1 5_10"},     {117, 100, 6, "lt_720 4_3 5_10"},
                        {155, 100, 6, "lt_720 4_3 5_10"},     {156, 100, 6, "lt_720 16_9 5_10"},
                        {1000, 100, 6, "lt_720 16_9 5_10"},   {1001, 100, 6, "lt_720 - 5_10"},
                        {4096, 2160, 90, "1080 16_9 30_inf"}, {1079, 1080, 8, "720 1_1 5_10"}};
  for (const Case& c : cases) {
    const Bin bin = bin_of(c.width, c.height, c.seconds);
    EXPECT_EQ(text(bin), c.bin) << c.width << " x " << c.height << ", " << c.seconds << " s";
    EXPECT_EQ(bin.complete(), text(bin).find('-') == std::string::npos);
  }
}

}  // namespace
}  // namespace kinora::video
