#include "apps/studio/guard.hpp"

#include <gtest/gtest.h>

namespace kinora::studio {
namespace {

TEST(Guard, LetsInWhoKnowsTheTokenAndNobodyElse) {
  const std::string token = new_token();
  ASSERT_EQ(token.size(), 32U);
  EXPECT_NE(token, new_token());
  const Guard guard(token, 8080);
  const std::string cookie = "a=b; kinora_studio_8080=" + token + "; c=d", origin = "http://127.0.0.1:8080";
  const auto may = [&](const Asked& asked) { return guard.refusal(asked).empty(); };
  EXPECT_TRUE(may({false, "127.0.0.1:8080", "", "", "", token}));
  EXPECT_TRUE(may({false, "localhost:8080", cookie, "", "", ""}));
  EXPECT_TRUE(may({true, "127.0.0.1:8080", cookie, origin, "application/json", ""}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", ""}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", token.substr(1)}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", std::string(32, '0')}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "kinora_studio_8081=" + token, "", "", ""}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "xkinora_studio_8080=" + token, "", "", ""}));
  EXPECT_FALSE(may({false, "attacker.example:8080", cookie, "", "", token}));  // a name rebound to loopback
  EXPECT_FALSE(may({false, "127.0.0.1:8081", cookie, "", "", ""}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", cookie, "http://127.0.0.1:9999", "", ""}));
  EXPECT_FALSE(may({true, "127.0.0.1:8080", cookie, "", "application/json", ""}));
  EXPECT_FALSE(may({true, "127.0.0.1:8080", cookie, origin, "text/plain", ""}));
}

}  // namespace
}  // namespace kinora::studio
