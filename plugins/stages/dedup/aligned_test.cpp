// The second look at clips whose embeddings are alike: alignments of known motion, and the correlation
// against its definition.
#include "aligned.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "signature_testing.hpp"

namespace kinora::dedup {
namespace {

Signature shown(unsigned seed, const Shown& how = {}) {
  return signature_of(signature_bytes(seed, how), "x");
}

// The correlation by its definition, in float64, of a's frames and b's frames between the ones it has.
double plain_correlation(const Signature& a, const Signature& b, const Aligned& how) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.frames(); ++i) {
    const double at = how.speed * static_cast<double>(i) + how.offset_s * kSignatureRate;
    if (at < 0 || at > static_cast<double>(b.frames() - 1)) continue;
    const auto j = static_cast<size_t>(at);
    const size_t next = std::min(j + 1, b.frames() - 1);
    for (size_t cell = 0; cell < kCells; ++cell) {
      const double x = a.motion[i * kCells + cell],
                   y = std::lerp(b.motion[j * kCells + cell], b.motion[next * kCells + cell],
                                 at - std::floor(at));
      ab += x * y, aa += x * x, bb += y * y;
    }
  }
  return ab / std::sqrt(aa * bb);
}

TEST(Aligned, FindsTheSpeedAndTheStartOfACopy) {
  for (const double speed : {0.96, 1.0, 25 / 23.976, 1.1})
    for (const double start : {0.0, 0.75}) {
      const Signature copy = shown(3, {.speed = speed, .start = start}), original = shown(3, {.frames = 40});
      const Aligned found = align(copy, original);
      EXPECT_GT(found.correlation, 0.95) << speed << " " << start;
      EXPECT_NEAR(found.speed, speed, 0.011) << start;
      EXPECT_NEAR(found.offset_s, start, 0.13) << speed;
      EXPECT_NEAR(align(original, copy).speed, 1 / speed, 0.011);
    }
}

TEST(Aligned, IgnoresBrightnessContrastAndALogo) {
  for (const Shown& how :
       {Shown{.base = 90}, Shown{.gain = 0.3}, Shown{.gain = 1.5, .base = 10}, Shown{.logo = 250}}) {
    const Aligned found = align(shown(4, how), shown(4));
    EXPECT_GT(found.correlation, 0.9) << how.gain << " " << how.base << " " << how.logo;
    EXPECT_NEAR(found.speed, 1, 0.011);
    EXPECT_NEAR(found.offset_s, 0, 0.07);
  }
}

// The same scene, other motion: also with a logo that is brighter than anything that moves.
TEST(Aligned, OtherMotionIsNoCopy) {
  for (const double logo : {0.0, 250.0})
    for (unsigned seed = 10; seed < 22; ++seed)
      for (unsigned other = 10; other < seed; ++other)
        EXPECT_LT(align(shown(seed, {.logo = logo}), shown(other, {.logo = logo})).correlation, 0.8)
            << seed << " " << other;
}

// Two moments of a scene that fade in and out, and one moment with and without its fades.
TEST(Aligned, FadesAreNoMotion) {
  for (unsigned seed = 10; seed < 20; ++seed) {
    const Signature faded = shown(seed, {.fade = 6});
    EXPECT_GT(align(faded, shown(seed)).correlation, 0.85) << seed;
    for (unsigned other = 10; other < seed; ++other)
      EXPECT_LT(align(faded, shown(other, {.fade = 6})).correlation, 0.8) << seed << " " << other;
  }
}

TEST(Aligned, IsTheCorrelationOfItsDefinition) {
  for (unsigned seed = 30; seed < 36; ++seed) {
    const Signature a = shown(seed, {.frames = 20 + seed}),
                    b = shown(seed % 2 ? seed : 7, {.frames = 40, .speed = 1.07});
    const Aligned found = align(a, b);
    EXPECT_NEAR(found.correlation, plain_correlation(a, b, found), 1e-4) << seed;
    EXPECT_GT(found.correlation, plain_correlation(a, b, {}) - 1e-4) << seed;
  }
}

TEST(Aligned, ComparesNoFewerThanFourFrames) {
  EXPECT_EQ(align(shown(1, {.frames = 3}), shown(1)).correlation, -1);
  EXPECT_EQ(align(shown(1), shown(1, {.frames = 1})).correlation, -1);
  EXPECT_GT(align(shown(1, {.frames = 4}), shown(1, {.frames = 4})).correlation, 0.99);
}

TEST(Signature, KnowsWhatStandsStill) {
  EXPECT_TRUE(shown(1, {.gain = 0}).is_motionless());
  EXPECT_TRUE(shown(1, {.frames = 1}).is_motionless());
  EXPECT_FALSE(shown(1).is_motionless());
  EXPECT_EQ(align(shown(1, {.gain = 0}), shown(1)).correlation, -1);
}

// A title card that fades in and out moves as little as one that does not, with a logo that stays or without.
TEST(Signature, KnowsThatAFadeIsNoMotion) {
  for (const double logo : {0.0, 250.0})
    for (unsigned seed = 1; seed < 9; ++seed) {
      EXPECT_TRUE(shown(seed, {.frames = 16, .speed = 0, .logo = logo, .fade = 5}).is_motionless()) << seed;
      EXPECT_FALSE(shown(seed, {.frames = 16, .logo = logo, .fade = 5}).is_motionless()) << seed;
    }
}

TEST(Signature, RefusesPartsOfFramesAndTakesTheFirst30Seconds) {
  EXPECT_EQ(shown(1, {.frames = 500}).frames(), kSignatureFrames);
  for (const std::string bytes : {"", "x"}) try {
      signature_of(bytes, "clip.signature");
      ADD_FAILURE() << bytes.size();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
      EXPECT_THAT(e.what(), ::testing::HasSubstr("clip.signature: expected frames of 64 bytes"));
    }
}

}  // namespace
}  // namespace kinora::dedup
