#include "core/io/io.hpp"

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

TEST(Uri, SchemeAndPath) {
  const struct {
    const char *text, *scheme, *path;
  } cases[] = {{"a/b.mp4", "file", "a/b.mp4"},
               {"/a/b.mp4", "file", "/a/b.mp4"},
               {"file:///a%20b/c", "file", "/a b/c"},
               {"file://localhost/a", "file", "/a"},
               {"file:///100%", "file", "/100%"},
               {"s3://bucket/a%20b", "s3", "bucket/a%20b"},
               {"S3://bucket/key", "s3", "bucket/key"},
               {"HTTPS://host:1/a%20b@c", "https", "host:1/a%20b@c"},
               {"odd name://x", "file", "odd name://x"},
               {"://x", "file", "://x"},
               {"a:b", "file", "a:b"}};
  for (const auto& c : cases) {
    const auto uri = parse_uri(c.text);
    ASSERT_TRUE(uri) << c.text;
    EXPECT_EQ(uri->scheme, c.scheme) << c.text;
    EXPECT_EQ(uri->path, c.path) << c.text;
  }
  EXPECT_FALSE(parse_uri(""));
  EXPECT_FALSE(parse_uri("file://relative"));
  EXPECT_FALSE(parse_uri(std::string_view("a\0b", 3)));
  EXPECT_FALSE(parse_uri("asset:no/such/thing"));
}

TEST(Uri, OfAWebServerHasNoSecret) {
  for (const char* text : {"https://me:hush@host:1/a/b.tar", "http://hush@host", "https://me:hu@sh@host/a?b",
                           "https://host/a.tar?key=hush", "http://host?hush", "https://host/a#hush"}) {
    const auto uri = parse_uri(text);
    ASSERT_FALSE(uri) << text;
    EXPECT_EQ(uri.failure().code, KINORA_ERROR_INVALID);
    EXPECT_EQ(uri.failure().message.find("hu"), std::string::npos) << uri.failure().message;
    EXPECT_NE(uri.failure().message.find("host"), std::string::npos) << uri.failure().message;
    EXPECT_FALSE(is_web(text));
  }
  EXPECT_NE(parse_uri("https://me:hush@host:1/a").failure().message.find("'machine host login NAME"),
            std::string::npos);
  EXPECT_TRUE(is_web("http://host/a"));
  EXPECT_TRUE(is_web("https://host"));
  EXPECT_FALSE(is_web("s3://bucket/a?b"));
  EXPECT_FALSE(is_web("a/b"));
}

}  // namespace
}  // namespace kinora::core
