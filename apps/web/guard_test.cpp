// Tests whom the guard lets in.
#include "apps/web/guard.hpp"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::web {
namespace {

TEST(Guard, LetsInWhoKnowsTheTokenAndNobodyElse) {
  const std::string token = new_token();
  ASSERT_EQ(token.size(), 32U);
  EXPECT_NE(token, new_token());
  const Guard guard("studio", token, 8080);
  const std::string own = guard.cookie("1000"), value = own.substr(0, own.find(';')),
                    cookie = "a=b; " + value + "; c=d", origin = "http://127.0.0.1:8080";
  const auto user = [](const char* id) { return [id] { return std::string(id); }; };
  const auto may = [&](const Caller& asked) { return guard.refusal(asked).empty(); };
  EXPECT_TRUE(may({false, "127.0.0.1:8080", "", "", "", token, user("1000")}));
  EXPECT_TRUE(may({false, "localhost:8080", cookie, "", "", "", user("1000")}));
  EXPECT_TRUE(may({true, "127.0.0.1:8080", cookie, origin, "application/json", "", user("1000")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", "", user("1000")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", token.substr(1), user("1000")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "", "", "", std::string(32, '0'), user("1000")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "kinora_studio_8081=" + value.substr(value.find('=') + 1), "",
                    "", "", user("1000")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "x" + value, "", "", "", user("1000")}));
  EXPECT_FALSE(
      may({false, "127.0.0.1:8080", cookie, "", "", "", user("1001")}));  // taken by another user's server
  EXPECT_FALSE(may({false, "127.0.0.1:8080", cookie, "", "", "", user("")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", "kinora_studio_8080=" + token, "", "", "", user("1000")}));
  EXPECT_EQ(own.find(token), own.npos);
  EXPECT_FALSE(may(
      {false, "attacker.example:8080", cookie, "", "", token, user("1000")}));  // a name rebound to loopback
  EXPECT_FALSE(may({false, "127.0.0.1:8081", cookie, "", "", "", user("1000")}));
  EXPECT_FALSE(may({false, "127.0.0.1:8080", cookie, "http://127.0.0.1:9999", "", "", user("1000")}));
  EXPECT_FALSE(may({true, "127.0.0.1:8080", cookie, "", "application/json", "", user("1000")}));
  EXPECT_FALSE(may({true, "127.0.0.1:8080", cookie, origin, "text/plain", "", user("1000")}));
}

TEST(Guard, AsksTheSystemOnlyForWhoShowsASecretOfThisStudio) {
  const Guard guard("studio", new_token(), 8080), other("studio", new_token(), 8080);
  int lookups = 0;
  const auto ask = [&](const std::string& cookies, const std::string& token) {
    const auto owner = [&lookups] { return ++lookups, std::string("1000"); };
    return guard.refusal({false, "127.0.0.1:8080", cookies, "", "", token, owner});
  };
  const auto cookie_of = [](const Guard& g) {
    const auto all = g.cookie("1000");
    return all.substr(0, all.find(';'));
  };
  for (const std::string& cookies :
       {std::string(), std::string("kinora_studio_8080="), std::string("kinora_studio_8080=1000."),
        "kinora_studio_8080=1000." + std::string(64, '0'), cookie_of(other)})
    for (const std::string& token : {std::string(), std::string(32, '0')})
      EXPECT_NE(ask(cookies, token), "") << cookies;
  EXPECT_EQ(lookups, 0);
  EXPECT_EQ(ask(cookie_of(guard), ""), "");
  EXPECT_EQ(lookups, 1);
}

TEST(PortProblem, IsOfThePortOrOfTheUser) {
  EXPECT_THAT(port_problem(80, EACCES), testing::HasSubstr("port 80 of 127.0.0.1 needs root; choose a port"));
  EXPECT_THAT(port_problem(80, EADDRINUSE), testing::HasSubstr("is in use by another program"));
  EXPECT_THAT(port_problem(80, EADDRNOTAVAIL, "192.0.2.1"),
              testing::HasSubstr("port 80 of 192.0.2.1 cannot be had"));
  EXPECT_THAT(port_problem(80, EMFILE), testing::HasSubstr("Too many open files"));
}

}  // namespace
}  // namespace kinora::web
