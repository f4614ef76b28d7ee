#include "plugins/storage/s3/object_path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::s3 {
namespace {

TEST(ObjectPath, IsBucketAndKeyAsTheyAre) {
  const auto at = object_path("my.bucket-1/films//a b+c%20 \xC3\xA9?#.mp4");
  EXPECT_EQ(at.bucket, "my.bucket-1");
  EXPECT_EQ(at.key, "films//a b+c%20 \xC3\xA9?#.mp4");
  EXPECT_EQ(object_path("bucket").key, "");
  for (const char* bad : {"", "/key", "ab/key", "evil@host/key", "host:80/key", "a\xC3\xA9z/key", "-ab/key"})
    EXPECT_THROW(object_path(bad), Error) << bad;
  EXPECT_THROW(object_path("bucket/" + std::string(1025, 'x')), Error);
  EXPECT_THROW(object_named("bucket/"), Error);
}

TEST(ObjectPath, IsEncodedAsSigV4Says) {
  EXPECT_EQ(encoded_key("a b+c/\xC3\xA9~-_.%20?&=//"), "a%20b%2Bc/%C3%A9~-_.%2520%3F%26%3D//");
  EXPECT_EQ(encoded_value("a/b c"), "a%2Fb%20c");
  EXPECT_EQ(query_text({{"list-type", "2"}, {"prefix", "a b/"}, {"delimiter", "/"}, {"uploads", ""}}),
            "delimiter=%2F&list-type=2&prefix=a%20b%2F&uploads=");
  EXPECT_EQ(decoded_name("a+b%2Bc%zz%"), "a b+c%zz%");
}

// Decoding reverses encoding, for every byte.
TEST(ObjectPath, EveryNameComesBack) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(decoded_name(encoded_value(all)), all);
}

std::string url_of(const std::string& endpoint, const std::string& style, const std::string& bucket) {
  Options o;
  o.endpoint = endpoint;
  o.path_style = style;
  o.region = "eu-west-3";
  return endpoint_of(o).url({bucket, "a b"}, {});
}

TEST(Endpoint, PutsTheBucketInTheHostOrThePath) {
  EXPECT_EQ(url_of("", "auto", "films"), "https://films.s3.eu-west-3.amazonaws.com/a%20b");
  EXPECT_EQ(url_of("", "auto", "my.films"), "https://s3.eu-west-3.amazonaws.com/my.films/a%20b");
  EXPECT_EQ(url_of("", "on", "films"), "https://s3.eu-west-3.amazonaws.com/films/a%20b");
  EXPECT_EQ(url_of("http://127.0.0.1:9000/", "auto", "films"), "http://127.0.0.1:9000/films/a%20b");
  EXPECT_EQ(url_of("https://store.example.org/s3", "auto", "films"),
            "https://store.example.org/s3/films/a%20b");
  EXPECT_EQ(url_of("store.example.org", "off", "films"), "https://films.store.example.org/a%20b");
}

TEST(Endpoint, RefusesWhatIsNone) {
  for (const char* bad :
       {"ftp://host", "http://", "http://a b", "http://key:secret@host", "http://host/?x=1"}) {
    try {
      url_of(bad, "auto", "films");
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("endpoint"),
                                           testing::Not(testing::HasSubstr("secret@"))));
    }
  }
}

}  // namespace
}  // namespace kinora::s3
