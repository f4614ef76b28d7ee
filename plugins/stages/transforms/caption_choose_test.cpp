// stage/caption.choose: shares over many slots, the same choice for the same slot, and what it refuses.
#include "caption_choose.hpp"

#include <cmath>
#include <map>

#include <gmock/gmock.h>

#include "transforms_testing.hpp"

namespace kinora::transforms {
namespace {

using ::testing::HasSubstr;
using Counts = std::map<std::string, double>;
constexpr uint64_t kSlots = 10000;

Sample captioned() {
  testing::start();
  Sample out("clip");
  out.set("txt", "a");
  out.set("long.txt", "b");
  out.set("json", R"({"captions": ["c", "d"], "vlm": {"short": "e"}, "height": 48})");
  return out;
}

std::string chosen(CaptionChoose& stage, const Sample& sample, uint64_t slot, uint64_t seed = kSeed) {
  return std::string(passed(stage, taken(sample, slot), seed).need("txt"));
}

// How often each text is chosen.
Counts counted(const CaptionChoose::Options& options, const Sample& sample) {
  CaptionChoose stage(options);
  Counts out;
  for (uint64_t slot = 0; slot < kSlots; ++slot) ++out[chosen(stage, sample, slot)];
  return out;
}

void expect_shares(const Counts& counts, const Counts& shares) {
  EXPECT_EQ(counts.size(), shares.size());
  for (const auto& [text, share] : shares) {
    ASSERT_TRUE(counts.contains(text)) << text;
    EXPECT_NEAR(counts.at(text), kSlots * share, bound(kSlots, share)) << text;
  }
}

TEST(CaptionChoose, TakesEachCaptionAsOftenAsItsWeightSays) {
  expect_shares(
      counted({.of = {"txt", "long.txt", "captions", "vlm.short"}, .weights = {3, 2, 2, 1}}, captioned()),
      {{"a", 0.375}, {"b", 0.25}, {"c", 0.125}, {"d", 0.125}, {"e", 0.125}});
  expect_shares(counted({.of = {"txt", "captions"}}, captioned()), {{"a", 0.5}, {"c", 0.25}, {"d", 0.25}});
  expect_shares(counted({.of = {"txt", "long.txt"}, .weights = {0, 1}}, captioned()), {{"b", 1}});
}

TEST(CaptionChoose, LeavesOutWhatASampleLacks) {
  expect_shares(
      counted({.of = {"txt", "none", "vlm.none", "height.none", "captions"}, .weights = {1, 9, 9, 9, 3}},
              captioned()),
      {{"a", 0.25}, {"c", 0.375}, {"d", 0.375}});
}

TEST(CaptionChoose, EmptiesAShareWhateverItChooses) {
  expect_shares(counted({.of = {"txt", "long.txt"}, .weights = {3, 1}, .dropout = 0.2}, captioned()),
                {{"", 0.2}, {"a", 0.6}, {"b", 0.2}});
  expect_shares(counted({.dropout = 0.1}, captioned()), {{"", 0.1}, {"a", 0.9}});
}

TEST(CaptionChoose, DependsOnTheSeedAndTheSlotAlone) {
  const Sample sample = captioned();
  CaptionChoose one({.of = {"txt", "captions"}}), other({.of = {"txt", "captions"}});
  int same = 0;
  for (uint64_t slot = 0; slot < 200; ++slot) {
    const std::string text = chosen(one, sample, slot);
    EXPECT_EQ(chosen(other, sample.clone("another"), slot), text);
    same += chosen(other, sample, slot, kSeed + 1) == text;
  }
  EXPECT_LT(same, 150) << "a third would agree by chance";
}

TEST(CaptionChoose, WithoutASlotDependsOnTheKey) {
  const Sample sample = captioned();
  CaptionChoose stage({.of = {"txt", "long.txt"}});
  Counts counts;
  for (int i = 0; i < 200; ++i) {
    const Sample clip = sample.clone("clip-" + std::to_string(i));
    const auto text = std::string(passed(stage, clip).need("txt"));
    EXPECT_EQ(passed(stage, clip).need("txt"), text);
    ++counts[text];
  }
  EXPECT_NEAR(counts["a"], 100, bound(200, 0.5));
}

TEST(CaptionChoose, RefusesWhatIsNoCaption) {
  const Sample sample = captioned();
  const auto failure = [&](const std::vector<std::string>& of) {
    CaptionChoose stage({.of = of});
    return error_of([&] { chosen(stage, sample, 0); });
  };
  EXPECT_THAT(failure({"none", "vlm.long"}), HasSubstr("'clip' has none of the captions none, vlm.long"));
  EXPECT_THAT(failure({"height"}), HasSubstr("its fact height must be a text or a list of texts"));
  EXPECT_THAT(failure({"vlm"}), HasSubstr("its fact vlm must be a text or a list of texts"));
  const auto refused = [](const CaptionChoose::Options& options) {
    return error_of([&] { CaptionChoose{options}; });
  };
  EXPECT_THAT(refused({.weights = {1, 2}}), HasSubstr("2 weights of 1 captions"));
  EXPECT_THAT(refused({.weights = {0}}), HasSubstr("at least one above 0"));
  EXPECT_THAT(refused({.of = {}}), HasSubstr("0 weights of 0 captions"));
}

}  // namespace
}  // namespace kinora::transforms
