#include "core/config/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of(const std::string& text) {
  const auto document = Document::parse(text, "run.toml");
  return document ? "" : document.failure().message;
}

TEST(Document, SaysThatATableInBracesIsOnOneLine) {
  constexpr const char* kRemedy = "write each { ... } on one line";
  for (const char* text : {"a = { b = 1,\n  c = 2 }\n", "a = { b = 1\n}\n", "a = {\r\n b = 1 }\r\n",
                           "a = [\n  {\n b = 1 }]\n", "a = { b = 1, # first\n  c = 2 }\n"})
    EXPECT_THAT(error_of(text), HasSubstr(kRemedy)) << text;
  EXPECT_THAT(error_of("a = { b = 1,\n  c = 2 }\n"), HasSubstr("run.toml:1:13: "));
  for (const char* other : {"a = { b = 1 c = 2 }\n", "a = \n", "a = [1\n b\n"}) {
    EXPECT_NE(error_of(other), "") << other;
    EXPECT_THAT(error_of(other), Not(HasSubstr(kRemedy))) << other;
  }
}

// A command line has no lines that a user could look up.
TEST(Document, OfAFlagHasPlacesWithoutLines) {
  auto flag = Document::parse("[[job]]\nname = 'a'\n", "--pipeline"),
       file = Document::parse("a = 1\n", "run.toml");
  ASSERT_TRUE(flag && file);
  EXPECT_EQ(format({flag->value("/job/0/name"), "wrong"}), "--pipeline: wrong");
  EXPECT_EQ(format({file->value("/a"), "wrong"}), "run.toml:1:5: wrong");
  ASSERT_TRUE(flag->set("a.height=3"));
  EXPECT_EQ(format({flag->value("/job/0/height"), "wrong"}), "--set a.height=3: wrong");
}

}  // namespace
}  // namespace kinora::core
