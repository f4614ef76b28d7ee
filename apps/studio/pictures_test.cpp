// The cache of pictures.
#include "apps/studio/pictures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::studio {
namespace {

const PictureCache::Time kNow{std::chrono::hours(1)};

Picture of(size_t bytes) { return std::make_shared<const std::string>(bytes, 'x'); }

TEST(PictureCache, StaysWithinItsBytesAndForgetsTheLeastRecentlyAsked) {
  PictureCache cache(10'000);
  for (int i = 0; i < 100; ++i) {
    cache.keep(std::to_string(i), of(1000), kNow);
    EXPECT_TRUE(cache.find("0", kNow) || i > 0);
    EXPECT_LE(cache.bytes(), 10'000U);
  }
  EXPECT_TRUE(cache.contains("0", kNow));  // it was used repeatedly
  EXPECT_TRUE(cache.contains("99", kNow));
  EXPECT_FALSE(cache.contains("50", kNow));
}

TEST(PictureCache, RemembersForAWhileThatThereIsNoneAndCountsAReplacementOnce) {
  PictureCache cache(10'000);
  cache.keep("a", nullptr, kNow);
  ASSERT_TRUE(cache.find("a", kNow));
  EXPECT_EQ(*cache.find("a", kNow), nullptr);
  EXPECT_FALSE(cache.find("b", kNow));
  EXPECT_FALSE(cache.find("a", kNow + PictureCache::kAgain)) << "it is tried again";
  EXPECT_FALSE(cache.contains("a", kNow + PictureCache::kAgain));
  cache.keep("a", of(500), kNow);
  const size_t once = cache.bytes();
  cache.keep("a", of(500), kNow);
  EXPECT_EQ(cache.bytes(), once);
  EXPECT_TRUE(cache.find("a", kNow + std::chrono::hours(1)));
  cache.keep("b", of(50'000), kNow);
  EXPECT_TRUE(cache.contains("b", kNow));  // the newest entry stays
  EXPECT_FALSE(cache.contains("a", kNow));
}

}  // namespace
}  // namespace kinora::studio
