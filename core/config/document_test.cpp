#include "core/config/document.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
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

TEST(Document, NamesTheBracketThatIsStillOpen) {
  EXPECT_EQ(error_of("a = 1\nb = [[ 'x',\n  'y' ]\n\n"), "run.toml:2:5: this '[' is not closed by a ']'");
  EXPECT_EQ(error_of("# [\nb = [ '[', \"[\\\"[\", '\"', # {\n"),
            "run.toml:2:5: this '[' is not closed by a ']'")
      << "brackets in texts and comments are none";
  EXPECT_EQ(error_of("\u00e4 = 1\n").find("this '"), std::string::npos);
  const std::string later = error_of("a = [ 'x'\nb = 1\n");
  EXPECT_THAT(later, testing::AllOf(HasSubstr("run.toml:2:"), HasSubstr("; the '[' at 1:5 is still open")));
  EXPECT_THAT(error_of("a = [ 'x', \"\"\"[\n"), Not(HasSubstr("this '['"))) << "the text is open";
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

TEST(Document, SetsKeysOfTheRunOfAFileThatHasNoSuchTable) {
  auto file = Document::parse("[[job]]\nname = 'a'\n", "run.toml");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->set("run.seed=3"));
  ASSERT_TRUE(file->set("run.engine.use=ray"));
  EXPECT_EQ(file->root()["run"], (nlohmann::json{{"seed", 3}, {"engine", {{"use", "ray"}}}}));
  EXPECT_EQ(format({file->value("/run/engine/use"), "wrong"}), "--set run.engine.use=ray: wrong");
  EXPECT_THAT(file->set("rum.seed=3").failure().message, HasSubstr("did you mean 'run'?"));
}

// Without the quotes that a shell takes, it is a text.
TEST(Document, TakesListsInTomlAndInJsonFromTheCommandLine) {
  auto file = Document::parse("[[job]]\nname = 'a'\n", "run.toml");
  ASSERT_TRUE(file);
  const auto after = [&](const std::string& value) {
    EXPECT_TRUE(file->set("a.shots=" + value)) << value;
    return file->root()["job"][0]["shots"];
  };
  const nlohmann::json shots = nlohmann::json::parse(R"([{"prompt": "sea", "chunks": 2}])");
  EXPECT_EQ(after(R"([{ prompt = "sea", chunks = 2 }])"), shots);
  EXPECT_EQ(after(R"([{"prompt": "sea", "chunks": 2}])"), shots);
  EXPECT_EQ(after(R"({"top_p": 2})"), R"({"top_p": 2})") << "for options that are JSON in a text";
  EXPECT_EQ(after("[{ prompt = sea, chunks = 2 }]"), "[{ prompt = sea, chunks = 2 }]");
  EXPECT_EQ(after("\"[\\\"sea\\\"]\""), "[\"sea\"]") << "a text in quotes";
}

// As Windows' Notepad saves a file: "Unicode", "Unicode big endian", "UTF-8" with its mark, "ANSI".
TEST(Document, IsTheSameInEveryEncoding) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "encoded.toml";
  const std::string text = "[run]\r\nname = \"caf\u00e9\"\r\n";
  const auto wide = [&](bool is_big, bool has_mark) {
    std::string out;
    const auto add = [&](int c) {
      out += static_cast<char>(is_big ? c >> 8 : c & 255);
      out += static_cast<char>(is_big ? c & 255 : c >> 8);
    };
    if (has_mark) add(0xFEFF);
    for (const char c : std::string("[run]\r\nname = \"caf\xE9\"\r\n")) add(static_cast<uint8_t>(c));
    return out;
  };
  const auto read = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    return Document::read(file);
  };
  for (const std::string& bytes : {text, "\xEF\xBB\xBF" + text, wide(false, true), wide(true, true),
                                   wide(false, false), std::string("[run]\r\nname = \"caf\xE9\"\r\n")}) {
    const auto document = read(bytes);
    ASSERT_TRUE(document) << document.failure().message;
    EXPECT_EQ(document->root()["run"]["name"], "caf\u00e9");
    EXPECT_EQ(format({document->value("/run/name"), "wrong"}), file.string() + ":2:8: wrong");
  }
  EXPECT_THAT(read(wide(false, true) + "x").failure().message,
              HasSubstr("encoded.toml:3: half a character in UTF-16"));
  EXPECT_THAT(read(std::string("a = 1\n\0", 7)).failure().message, HasSubstr("encoded.toml:2: a NUL byte"));
  EXPECT_THAT(read(wide(true, true).substr(0, 20)).failure().message, HasSubstr("encoded.toml:2:"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace kinora::core
