#include "preference.hpp"

#include <gtest/gtest.h>

namespace kinora::dedup {
namespace {

using nlohmann::json;

Quality clip(double seconds, double pixels = 640 * 360, double rate = 25, double bits = 0.1,
             double sharp = 100, const std::string& key = "k") {
  return {.pixels = pixels, .rate = rate, .bits = bits, .sharpness = sharp, .seconds = seconds, .key = key};
}

TEST(Preference, OfNearlyEqualLengthTheBetterPicture) {
  for (const Keep keep : {Keep::largest, Keep::longest}) {
    EXPECT_TRUE(is_preferred(clip(2.96, 1e5, 25), clip(3.00, 1e5, 15), keep)) << "rounding is no reason";
    EXPECT_TRUE(is_preferred(clip(2.96, 1e5, 25, 0.2), clip(3.00, 1e5, 25, 0.1), keep));
    EXPECT_TRUE(is_preferred(clip(2.96, 1e5, 25, 0.2, 90), clip(3.00, 1e5, 25, 0.2, 80), keep));
    EXPECT_TRUE(is_preferred(clip(3.00), clip(2.96), keep));
    EXPECT_TRUE(is_preferred(clip(3, 1e5, 25, 0.1, 9, "a"), clip(3, 1e5, 25, 0.1, 9, "b"), keep));
    EXPECT_TRUE(is_preferred(clip(3.2, 1e5, 15), clip(3.0, 1e5, 25), keep)) << "more than 5 %";
  }
  EXPECT_TRUE(is_preferred(clip(3.0, 2e5), clip(3.7, 1e5), Keep::largest));
  EXPECT_TRUE(is_preferred(clip(3.7, 1e5), clip(3.0, 2e5), Keep::longest));
  EXPECT_TRUE(is_preferred(clip(3.0, 2e5), clip(3.1, 1e5), Keep::longest));
  EXPECT_TRUE(is_preferred(clip(1, 1e5, 25, 0.1, 9, "a"), clip(3, 2e5, 25, 0.1, 9, "b"), Keep::first));
}

TEST(Preference, ARoundedRateOrAPaddedFrameIsNoReason) {
  const double hd = 1920 * 1080;
  for (const Keep keep : {Keep::largest, Keep::longest, Keep::best}) {
    for (const double rate : {23.98, 24.0})
      EXPECT_TRUE(is_preferred(clip(3, hd, 24000.0 / 1001, 2.0, 150), clip(3, hd, rate, 0.1, 10), keep))
          << rate;
    EXPECT_TRUE(is_preferred(clip(3, hd, 25, 0.1, 150), clip(3, 1920 * 1088, 25, 0.1, 10), keep));
    EXPECT_TRUE(is_preferred(clip(3, hd, 25, 0.100, 150), clip(3, hd, 25, 0.101, 10), keep));
    EXPECT_TRUE(is_preferred(clip(3.01, hd, 25, 0.1, 100), clip(3, hd, 25, 0.1, 101), keep));
    EXPECT_TRUE(is_preferred(clip(3, hd, 25, 0.1, 10), clip(3, hd, 24, 2.0, 150), keep)) << "more than 2 %";
    EXPECT_TRUE(is_preferred(clip(3, 1.06 * hd, 25, 0.1, 10), clip(3, hd, 25, 2.0, 150), keep))
        << "more than 5 %";
    EXPECT_TRUE(is_preferred(clip(3, hd, 25, 0.1, 1), clip(3, Quality::kMissing, 25, 2, 9), keep));
  }
}

TEST(Preference, AnExcerptStandsForNothing) {
  EXPECT_TRUE(is_much_longer(clip(5.53), clip(1.72)));
  EXPECT_FALSE(is_much_longer(clip(3.00), clip(2.96)));
  EXPECT_FALSE(is_much_longer(clip(5), clip(Quality::kMissing)));
  EXPECT_FALSE(is_much_longer(clip(Quality::kMissing), clip(5)));
}

TEST(Preference, IsOfOneOfEachTwo) {
  const double missing = Quality::kMissing;
  const std::vector<Quality> all{
      clip(1, 1, 1, 1, 1, "a"),    clip(1.04, 1, 2, 1, 1, "b"),
      clip(1.08, 1, 1, 2, 1, "c"), clip(missing, missing, 1, 1, 1, "d"),
      clip(1, 1, 1, 1, 1, "e"),    clip(missing, 1, missing, missing, missing, "f")};
  for (const Keep keep : {Keep::largest, Keep::longest, Keep::best, Keep::first})
    for (const auto& a : all)
      for (const auto& b : all) {
        EXPECT_EQ(is_preferred(a, b, keep) + is_preferred(b, a, keep), a.key == b.key ? 0 : 1)
            << a.key << b.key;
        EXPECT_EQ(comes_before(a, b, keep) + comes_before(b, a, keep), a.key == b.key ? 0 : 1);
      }
}

TEST(Preference, OfEqualCopiesTheOneOfAWholeVideo) {
  Quality damaged = clip(3, 1e5, 30, 0.2, 90, "a");
  damaged.whole = 0;
  for (const Keep keep : {Keep::largest, Keep::longest}) {
    EXPECT_TRUE(is_preferred(clip(3, 1e5, 25, 0.1, 80, "b"), damaged, keep));
    EXPECT_TRUE(comes_before(clip(3, 1e5, 25, 0.1, 80, "b"), damaged, keep));
    EXPECT_TRUE(is_preferred(damaged, clip(3, 0.5e5), keep)) << "more pixels come first";
  }
  EXPECT_EQ(together({&damaged, &damaged}, "v").whole, 0);
  EXPECT_EQ(together({&damaged}, "v").seconds, 3);
}

TEST(Preference, OfEqualCopiesTheOneThatIsNotNamedSo) {
  const auto named = [](const std::string& key) { return clip(3, 1e5, 25, 0.1, 90, key); };
  for (const char* copy : {"bunny A (1)-0000", "bunny A (1)", "Copy of sea-0000", "a copy-0000", "a_COPY"}) {
    EXPECT_TRUE(is_preferred(named("z-0000"), named(copy), Keep::largest)) << copy;
    EXPECT_TRUE(comes_before(named("z-0000"), named(copy), Keep::largest)) << copy;
    EXPECT_TRUE(is_preferred(named(copy), named("z-0000"), Keep::first)) << "its rule is the key alone";
  }
  for (const char* other : {"photocopy-0000", "copyright", "a (1900s)", "b(1)-0000", "c ()-0000"})
    EXPECT_TRUE(is_preferred(named(other), named("z copy"), Keep::largest)) << other;
  EXPECT_TRUE(is_preferred(named("a copy-0000"), named("b copy-0000"), Keep::largest)) << "the lower key";
}

TEST(Preference, BitsAreOfTheFileAPixel) {
  const json facts{
      {"width", 100}, {"height", 10}, {"frames", 50}, {"fps", 25.0}, {"scores", {{"filter.blur", 7}}}};
  const Quality of = quality_of(facts, "", 12'500, "k");
  EXPECT_DOUBLE_EQ(of.bits, 2);
  EXPECT_EQ(of.sharpness, 7);
  EXPECT_EQ(quality_of(facts, "", 0, "k").bits, Quality::kMissing);
}

}  // namespace
}  // namespace kinora::dedup
