#include "core/run/data_input.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Read {
  DataInput data;
  std::vector<std::string> problems;
};

Read read(const std::string& input) {
  const auto document = or_throw(Document::parse("input = " + input + "\n", "run.toml"));
  Read out;
  std::vector<Diagnostic> problems;
  out.data = read_data(
      document, "/input", document.root().at("input"),
      [](const Location&, const std::string& path) { return "/base/" + path; }, problems);
  for (const auto& p : problems) out.problems.push_back(format(p));
  return out;
}

TEST(DataInput, ASetAndABlendOfBlends) {
  const auto set = read("{ path = 'a/', shuffle = 10 }");
  EXPECT_TRUE(set.problems.empty());
  EXPECT_EQ(set.data.path, "/base/a/");
  EXPECT_EQ(set.data.shuffle, 10);
  const auto blend = read(
      "{ blend = [{ path = 'a', weight = 3 }, { blend = [{ path = 'b', epochs = 2, shuffle = 5 }] }], "
      "shuffle = 7 }");
  EXPECT_TRUE(blend.problems.empty());
  const auto& parts = blend.data.parts;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].weight, 3);
  EXPECT_EQ(parts[0].shuffle, 7);
  EXPECT_EQ(parts[1].parts[0].epochs, 2);
  EXPECT_EQ(parts[1].parts[0].shuffle, 5);
}

TEST(DataInput, HowItIsReadIsOfTheWholeTableAndNotOfTheIdentity) {
  const auto set = read(
      "{ path = 'a', memory = '2 MB', readers = 0, cache = 'kept/', cache_limit = '1 GiB', max_failed = 0, "
      "max_failed_share = 1 }");
  EXPECT_TRUE(set.problems.empty());
  const DataReading& given = set.data.reading;
  EXPECT_EQ(given.memory, 2'000'000u);
  EXPECT_EQ(given.readers, 0);
  EXPECT_EQ(std::filesystem::path(given.cache), std::filesystem::current_path() / "kept/");
  EXPECT_EQ(given.cache_limit, uint64_t{1} << 30);
  EXPECT_EQ(given.max_failed, 0);
  EXPECT_EQ(given.max_failed_share, 1);
  const auto plain = read("{ path = 'a' }");
  EXPECT_EQ(plain.data.reading.readers, -1);
  EXPECT_EQ(plain.data.reading.max_failed, -1);
  EXPECT_EQ(plain.data.reading.cache, "");
  EXPECT_EQ(set.data.identity(), plain.data.identity());
}

TEST(DataInput, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{ }", "run.toml:1:9: expected either a path, of shards, or a blend"},
      {"{ path = 'a', blend = [{ path = 'b' }] }", "expected either a path"},
      {"{ path = 3 }", "run.toml:1:18: 'path' must be a path"},
      {"{ blend = [] }", "'blend' must be a list of at least one part"},
      {"{ blend = ['a'] }", "a part of a blend must be a table"},
      {"{ blend = [{ path = 'a', weight = 0 }] }", "run.toml:1:43: weight = 0: must be a number above 0"},
      {"{ blend = [{ path = 'a', weight = -1 }] }", "weight = -1"},
      {"{ blend = [{ path = 'a', weight = nan }] }", "weight = "},
      {"{ blend = [{ path = 'a', weight = 1, epochs = 1 }] }", "a weight or epochs, not both"},
      {"{ blend = [{ path = 'a', epochs = 1 }, { path = 'b' }] }", "some parts of the blend have epochs"},
      {"{ path = 'a', weight = 1 }", "unknown key 'weight'"},
      {"{ path = 'a', shufle = 1 }", "unknown key 'shufle', did you mean 'shuffle'?"},
      {"{ path = 'a', shuffle = 1.5 }", "shuffle = 1.5: must be an integer of at least 0"},
      {"{ path = 'a', memory = '3 apples' }",
       "run.toml:1:32: option 'memory' of input takes a size of at least 1 B"},
      {"{ path = 'a', memory = 0 }", "option 'memory' of input takes a size of at least 1 B, found 0"},
      {"{ path = 'a', readers = 65 }", "option 'readers' of input takes an int from 0 to 64, found 65"},
      {"{ path = 'a', cache = 3 }", "option 'cache' of input takes a path"},
      {"{ path = 'a', cache = 's3://b/c' }", "cache = s3://b/c: must be a folder of this machine"},
      {"{ path = 'a', max_failed = -1 }",
       "option 'max_failed' of input takes an int of at least 0, found -1"},
      {"{ path = 'a', max_failed_share = 1.5 }",
       "option 'max_failed_share' of input takes a float from 0 to 1"},
      {"{ blend = [{ path = 'a', cache = 'c' }] }",
       "run.toml:1:34: 'cache' is of all data; give it at the top of the table"}};
  for (const auto& [input, words] : cases)
    EXPECT_THAT(read(input).problems, ElementsAre(HasSubstr(words))) << input;
}

}  // namespace
}  // namespace kinora::core
