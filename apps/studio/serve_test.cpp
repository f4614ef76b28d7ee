// Tests of the parts of serving that need no server: the guard and the cache of pictures.
#include "apps/studio/serve.hpp"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/studio/pictures.hpp"

namespace kinora::studio {
namespace {

TEST(Guard, LetsInWhoKnowsTheTokenAndNobodyElse) {
  const std::string token = new_token();
  ASSERT_EQ(token.size(), 32U);
  EXPECT_NE(token, new_token());
  const Guard guard(token, 8080);
  const std::string own = guard.cookie("1000"), value = own.substr(0, own.find(';')),
                    cookie = "a=b; " + value + "; c=d", origin = "http://127.0.0.1:8080";
  const auto may = [&](const Asked& asked) { return guard.refusal(asked).empty(); };
  EXPECT_TRUE(may({false, "127.0.0.1:8080", "", "", "", token, "1000"}));
  EXPECT_TRUE(may({false, "localhost:8080", cookie, "", "", "", "1000"}));
  EXPECT_TRUE(may({true, "127.0.0.1:8080", cookie, origin, "application/json", "", "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", "", "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", token.substr(1), "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", std::string(32, '0'), "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "kinora_studio_8081=" + value.substr(value.find('=') + 1), "",
                    "", "", "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "x" + value, "", "", "", "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", cookie, "", "", "", "1001"}));  // taken by another user's server
  EXPECT_FALSE(may({false, "127.0.0.1:8080", cookie, "", "", "", ""}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "kinora_studio_8080=" + token, "", "", "", "1000"}));
  EXPECT_EQ(own.find(token), own.npos);
  EXPECT_FALSE(
      may({false, "attacker.example:8080", cookie, "", "", token, "1000"}));  // a name rebound to loopback
  EXPECT_FALSE(may({false, "127.0.0.1:8081", cookie, "", "", "", "1000"}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", cookie, "http://127.0.0.1:9999", "", "", "1000"}));
  EXPECT_FALSE(may({true, "127.0.0.1:8080", cookie, "", "application/json", "", "1000"}));
  EXPECT_FALSE(may({true, "127.0.0.1:8080", cookie, origin, "text/plain", "", "1000"}));
}

TEST(PortProblem, IsOfThePortOrOfTheUser) {
  EXPECT_THAT(port_problem(80, EACCES), testing::HasSubstr("port 80 of 127.0.0.1 needs root; choose a port"));
  EXPECT_THAT(port_problem(80, EADDRINUSE), testing::HasSubstr("is in use by another program"));
  EXPECT_THAT(port_problem(80, EMFILE), testing::HasSubstr("Too many open files"));
}

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
