#include "shots/cut_decision.hpp"

#include <random>

#include <gmock/gmock.h>

#include "shots/cut_decision_testing.hpp"

namespace kinora::video {
namespace {

using testing::decided_cuts;
using testing::NamedCuts;

// A video of erratic measures, with quiet stretches and fades.
struct Measured {
  FrameMeasures measures;
  Moment when;
};
std::vector<Measured> random_video(std::mt19937& random, int64_t frames) {
  std::vector<Measured> out;
  double calm = 0.9, light = 100;
  int64_t time = 0;
  for (int64_t i = 0; i < frames; ++i) {
    const auto roll = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
    if (roll() < 0.05) calm = roll() < 0.5 ? 0.95 : 0.2;
    if (roll() < 0.05) light = roll() < 0.5 ? 3 : 100;
    Measured m;
    m.measures.hsv.pixels = 1;
    m.measures.hsv.hue = m.measures.hsv.saturation = m.measures.hsv.value = roll() < calm ? 2 : 60;
    m.measures.correlation = roll() < calm ? 1.0 : 0.5;
    m.measures.hash_distance = roll() < calm ? 0.0 : 0.9;
    m.measures.mean = light;
    m.when = {i, time};
    time += roll() < 0.1 ? 250'000 : 40'000;
    out.push_back(m);
  }
  return out;
}

DetectorOptions options_of(const std::string& name, int variant) {
  DetectorOptions o;
  o.name = name;
  if (name == "adaptive") o.threshold = 3;
  if (name == "histogram") o.threshold = 0.05;
  if (name == "hash") o.threshold = 0.4;
  if (name == "threshold") o.threshold = 12;
  o.min_length = variant % 3 * 7;
  o.filter = variant % 2 ? "suppress" : "merge";
  o.window = 1 + variant;
  o.stride = 0.7;
  o.fade = variant % 2 ? "ceiling" : "floor";
  o.fade_bias = variant % 3 - 1;
  o.final_cut = variant % 2 == 0;
  return o;
}

TEST(SettledFrames, NoCutComesLaterThanSaid) {
  std::mt19937 random(7);
  for (const auto& name : detector_names())
    for (int variant = 0; variant < 6; ++variant)
      for (int video = 0; video < 20; ++video) {
        if (name == "transnetv2") continue;  // needs pictures and weights
        SCOPED_TRACE(name + " " + std::to_string(variant) + " " + std::to_string(video));
        const auto frames = random_video(random, 300);
        const auto detector = make_detector(options_of(name, variant), 25);
        SettledFrames settled(options_of(name, variant), 25);
        int64_t before = 0;
        size_t known = 0;
        for (const auto& f : frames) {
          detector->push(f.measures, f.when);
          for (; known < detector->cuts().size(); ++known) ASSERT_GE(detector->cuts()[known], before);
          const int64_t now = settled.after(*detector, f.when);
          ASSERT_GE(now, before) << "a settled frame stays settled";
          ASSERT_LE(now, f.when.frame + 1);
          before = now;
        }
        detector->finish(frames.back().when);
        for (; known < detector->cuts().size(); ++known) ASSERT_GE(detector->cuts()[known], before);
      }
}

TEST(SettledFrames, ComesSoon) {
  const auto latest = [](const std::string& name, const std::vector<double>& means) {
    const auto o = options_of(name, 0);
    const auto detector = make_detector(o, 25);
    SettledFrames settled(o, 25);
    int64_t late = 0, frame = 0;
    for (const double mean : means) {
      FrameMeasures m;
      m.mean = mean;
      m.hsv.pixels = 1;
      const Moment now{frame, frame * 40'000};
      detector->push(m, now);
      late = std::max<int64_t>(late, ++frame - settled.after(*detector, now));
    }
    return late;
  };
  EXPECT_EQ(latest("content", std::vector<double>(50, 90.0)), 0);
  EXPECT_EQ(latest("hash", std::vector<double>(50, 90.0)), 0);
  EXPECT_EQ(latest("adaptive", std::vector<double>(50, 90.0)), 1);
  EXPECT_EQ(latest("threshold", {90, 90, 0, 0, 0, 90, 90}), 3);
}

TEST(CutDecision, IsThatOfAllCutsHoweverTheyCome) {
  std::mt19937 random(3);
  const auto up_to = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n)(random); };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> names{"a", "b", "c"};
    std::vector<NamedCuts> found;
    for (const auto& name : names) {
      NamedCuts one{name, {}};
      for (int64_t frame = up_to(3); frame < 60; frame += 1 + up_to(12)) one.cuts.push_back(frame);
      found.push_back(one);
    }
    const std::string decide = std::vector<std::string>{"any", "all", "b"}[static_cast<size_t>(up_to(2))];
    const int64_t tolerance = up_to(4);
    const auto all = decided_cuts(found, decide, tolerance);
    CutDecision decision(names, decide, tolerance);
    std::vector<int64_t> settled(3);
    size_t known = 0;
    for (int64_t before = 0; *std::min_element(settled.begin(), settled.end()) < 80;) {
      for (auto& s : settled) s += up_to(5);
      // A detector may also have found cuts after its settled frame.
      std::vector<std::vector<int64_t>> so_far(3);
      for (size_t i = 0; i < 3; ++i)
        for (const int64_t cut : found[i].cuts)
          if (cut < settled[i] + up_to(1)) so_far[i].push_back(cut);
      decision.advance({&so_far[0], &so_far[1], &so_far[2]}, settled);
      for (; known < decision.cuts().size(); ++known) ASSERT_GE(decision.cuts()[known], before);
      ASSERT_GE(decision.settled(), before);
      before = decision.settled();
    }
    ASSERT_EQ(decision.cuts(), all) << decide << " " << tolerance;
  }
}

// Two cuts of neighbouring frames that are minutes apart are two cuts; certain ones are always cuts.
TEST(CutDecision, MeasuresByTimeAndKeepsWhatIsCertain) {
  const std::vector<int64_t> a{10, 40}, b{11, 41};
  CutDecision decision({"a", "b"}, "any", 2,
                       [](int64_t from, int64_t to) { return from == 10 ? 1000 : to - from; });
  decision.advance({&a, &b}, {20, 20}, {5, 11, 30});
  EXPECT_THAT(decision.cuts(), ::testing::ElementsAre(5, 10, 11));
  decision.advance({&a, &b}, {100, 100}, {5, 11, 30, 90});
  EXPECT_THAT(decision.cuts(), ::testing::ElementsAre(5, 10, 11, 30, 40, 90));
}

}  // namespace
}  // namespace kinora::video
