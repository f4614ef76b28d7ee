#include "shots/network_cuts.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shots/moving_pictures.hpp"

namespace kinora::video {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Answer {
  float change = 0, part = 0;
};

// All pictures first, then the answers. pictures: the value of all pixels of each frame; missing ones are those
// of the last.
NetworkCuts decided(const std::vector<Answer>& answers, std::vector<uint8_t> pictures = {100}) {
  NetworkCuts out(0.5);
  pictures.resize(std::max(pictures.size(), answers.size()), pictures.back());
  for (const uint8_t value : pictures)
    out.see(std::vector<uint8_t>(static_cast<size_t>(transnetv2::kFrameBytes), value).data());
  for (const Answer& a : answers) out.push(a.change, a.part);
  return out;
}

TEST(NetworkCuts, AHardCutIsTheFrameAfterThePeak) {
  const auto found = decided({{}, {}, {0.9F, 0.8F}, {}, {}});
  EXPECT_THAT(found.cuts(), ElementsAre(3));
  EXPECT_THAT(found.transitions(), IsEmpty());
  EXPECT_EQ(found.settled(), 5);
}

TEST(NetworkCuts, ADissolveIsOneCutAndItsFramesATransition) {
  const auto found =
      decided({{}, {0, 0.3F}, {0, 0.9F}, {0.6F, 0.9F}, {0.3F, 0.9F}, {0.7F, 0.9F}, {0, 0.8F}, {0, 0.4F}, {}});
  EXPECT_THAT(found.cuts(), ElementsAre(6)) << "two peaks of one change";
  EXPECT_THAT(found.transitions(), ElementsAre(Range{2, 7}));
}

TEST(NetworkCuts, ALongChangeNeedsNoPeakAndAShortOneDoes) {
  std::vector<Answer> answers(1);
  answers.insert(answers.end(), 12, {0.1F, 0.6F});
  answers[5].change = 0.4F;
  answers.push_back({});
  const auto found = decided(answers);
  EXPECT_THAT(found.cuts(), ElementsAre(6));
  EXPECT_THAT(found.transitions(), ElementsAre(Range{1, 13}));
  answers.erase(answers.begin() + 2);
  EXPECT_THAT(decided(answers).cuts(), IsEmpty());
}

TEST(NetworkCuts, AChangeIsSettledWhenItIsOver) {
  auto found = decided({{}, {}, {0.9F, 0.3F}});
  EXPECT_EQ(found.settled(), 2);
  EXPECT_THAT(found.cuts(), IsEmpty());
  found.push(0, 0.3F);
  EXPECT_EQ(found.settled(), 2);
  found.push(0, 0);
  EXPECT_EQ(found.settled(), 5);
  EXPECT_THAT(found.cuts(), ElementsAre(3));
}

TEST(NetworkCuts, NoShotFollowsAChangeAtTheEnd) {
  EXPECT_THAT(decided({{}, {}, {0.9F, 0.9F}}).cuts(), IsEmpty());
}

TEST(NetworkCuts, ShortShotsStay) {
  const auto found = decided({{}, {0.9F, 0.9F}, {}, {0.9F, 0.9F}, {}, {}}, {10, 10, 90, 90, 200, 200});
  EXPECT_THAT(found.cuts(), ElementsAre(2, 4));
}

// One cut at frame 7, unless the pictures around it are those of a flash.
TEST(NetworkCuts, AFlashIsNoCut) {
  std::vector<Answer> answers(12);
  answers[6] = {0.9F, 0.9F};
  const auto cuts = [&](const std::vector<uint8_t>& pictures) { return decided(answers, pictures).cuts(); };
  EXPECT_THAT(cuts({50, 50, 50, 50, 50, 50, 50, 180, 50}), IsEmpty()) << "the peak before its one frame";
  EXPECT_THAT(cuts({50, 50, 50, 50, 50, 50, 180, 55}), IsEmpty()) << "the peak at its last frame";
  EXPECT_THAT(cuts({50, 50, 50, 180, 180, 180, 180, 60}), IsEmpty()) << "four frames";
  EXPECT_THAT(cuts({50, 50, 180, 180, 180, 180, 180, 50}), ElementsAre(7)) << "five frames";
  EXPECT_THAT(cuts({50, 50, 50, 50, 50, 50, 50, 20, 50}), IsEmpty()) << "darker";
  EXPECT_THAT(cuts({50, 50, 50, 50, 50, 50, 50, 60, 50}), ElementsAre(7)) << "hardly brighter";
}

// Frames 0 to 9 of one shot and 10 to 19 of another; the network sees a change after some of them.
std::vector<int64_t> cuts_of(int first, int end, Light light, const std::vector<int>& changes, float change) {
  NetworkCuts out(0.5);
  for (int i = 0; i < 20; ++i)
    out.see(shot_picture(i >= 10, i, i >= first && i < end ? light : Light{}).data());
  for (int i = 0; i < 20; ++i) {
    const bool is_change = std::find(changes.begin(), changes.end(), i) != changes.end();
    out.push(is_change ? change : 0, 0);
  }
  return out.cuts();
}

TEST(NetworkCuts, AFlashWhereTheShotChangesIsOneCut) {
  EXPECT_THAT(cuts_of(10, 12, kLit, {9, 11}, 0.9F), ElementsAre(10)) << "the second shot is lit";
  EXPECT_THAT(cuts_of(8, 10, kLit, {7, 9}, 0.9F), ElementsAre(10)) << "the first shot is lit";
  EXPECT_THAT(cuts_of(8, 12, kWhite, {7, 11}, 0.9F), ElementsAre(8));
  EXPECT_THAT(cuts_of(8, 12, kWhite, {7}, 0.4F), ElementsAre(8)) << "the network is not certain";
  EXPECT_THAT(cuts_of(8, 12, kWhite, {7, 14}, 0.9F), ElementsAre(8, 15)) << "and a cut after it";
  EXPECT_THAT(cuts_of(0, 0, {}, {9}, 0.4F), IsEmpty()) << "no flash";
}

}  // namespace
}  // namespace kinora::video
