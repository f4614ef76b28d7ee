#include "plugins/storage/http/address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::web {
namespace {

TEST(Address, OnlyWhatAUrlCannotContainIsEncoded) {
  const struct {
    const char *path, *url;
  } cases[] = {{"host", "https://host/"},
               {"host/", "https://host/"},
               {"host:8443/a/b-0.tar", "https://host:8443/a/b-0.tar"},
               {"[::1]:80/a", "https://[::1]:80/a"},
               {"host/one video.tar", "https://host/one%20video.tar"},
               {"host/one%20video.tar", "https://host/one%20video.tar"},
               {"host/100%", "https://host/100%25"},
               {"host/%zz", "https://host/%25zz"},
               {"host/a?b#c", "https://host/a%3Fb%23c"},
               {"host/a\\b\"\n", "https://host/a%5Cb%22%0A"},
               {"host/\xC3\xA9", "https://host/%C3%A9"},
               {"host/a//b/../c@d", "https://host/a//b/../c@d"}};
  for (const auto& c : cases) {
    const Address at = address_of("https", c.path);
    EXPECT_EQ(at.url, c.url);
    EXPECT_EQ(at.uri, std::string("https://") + c.path);
  }
}

TEST(Address, WhatIsNoServerIsRefused) {
  for (const char* path : {"", "/a", "a b/c", "a\\b/c", "a%20/c", "a\n/c"})
    EXPECT_THAT(test::refusal([&] { address_of("http", path); }),
                testing::HasSubstr("is not the name of a server; write http://HOST/FOLDER"))
        << path;
}

}  // namespace
}  // namespace kinora::web
