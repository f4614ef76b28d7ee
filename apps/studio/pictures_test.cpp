// The cache of pictures.
#include "apps/studio/pictures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::studio {
namespace {

Picture of(size_t bytes) { return std::make_shared<const std::string>(bytes, 'x'); }

TEST(PictureCache, StaysWithinItsBytesAndForgetsTheLeastRecentlyAsked) {
  PictureCache cache(10'000);
  for (int i = 0; i < 100; ++i) {
    cache.keep(std::to_string(i), of(1000));
    EXPECT_TRUE(cache.find("0") || i > 0);
    EXPECT_LE(cache.bytes(), 10'000U);
  }
  EXPECT_TRUE(cache.contains("0"));  // it was used repeatedly
  EXPECT_TRUE(cache.contains("99"));
  EXPECT_FALSE(cache.contains("50"));
}

TEST(PictureCache, RemembersThatThereIsNoneAndCountsAReplacementOnce) {
  PictureCache cache(10'000);
  cache.keep("a", nullptr);
  ASSERT_TRUE(cache.find("a"));
  EXPECT_EQ(*cache.find("a"), nullptr);
  EXPECT_FALSE(cache.find("b"));
  cache.keep("a", of(500));
  const size_t once = cache.bytes();
  cache.keep("a", of(500));
  EXPECT_EQ(cache.bytes(), once);
  cache.keep("b", of(50'000));
  EXPECT_TRUE(cache.contains("b"));  // the newest entry stays
  EXPECT_FALSE(cache.contains("a"));
}

}  // namespace
}  // namespace kinora::studio
