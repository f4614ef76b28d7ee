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

}  // namespace
}  // namespace kinora::core
