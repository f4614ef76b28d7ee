#include "core/run/data_input.hpp"

#include <filesystem>
#include <set>

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
      [](const Location&, const std::string& path) { return "/base/" + path; },
      [](const std::string&, const nlohmann::json& given) {
        return std::make_shared<const DataSource>("source/" + given.get<std::string>(), "1", nullptr,
                                                  nullptr);
      },
      problems);
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

TEST(DataInput, ASourceInsteadOfShards) {
  const auto set = read("{ source = 'acme.table', path = 'a.table', shuffle = 10 }");
  EXPECT_THAT(set.problems, ElementsAre());
  ASSERT_TRUE(set.data.source);
  EXPECT_EQ(set.data.source->id, "source/acme.table");
  EXPECT_EQ(set.data.path, "/base/a.table");
  EXPECT_NE(set.data.identity(), read("{ path = 'a.table', shuffle = 10 }").data.identity());
  EXPECT_THAT(read("{ source = 'acme.table', blend = [{ path = 'a' }] }").problems,
              ElementsAre(HasSubstr("'source' belongs to a set")));
}

TEST(DataInput, ASubsetWithJoinedFields) {
  const auto one = read(
      "{ path = 'a/', part = [0, 0.9], where = 'duration_s > 2', join = { path = 'b/', fields = ['txt', "
      "'json'] } }");
  EXPECT_THAT(one.problems, ElementsAre());
  EXPECT_EQ(one.data.part, (std::pair<double, double>{0, 0.9}));
  EXPECT_EQ(one.data.where, "duration_s > 2");
  ASSERT_EQ(one.data.joins.size(), 1u);
  EXPECT_EQ(one.data.joins[0].path, "/base/b/");
  EXPECT_THAT(one.data.joins[0].fields, ElementsAre("txt", "json"));
  const auto blend = read(
      "{ blend = [{ path = 'a', part = [0.9, 1.0], join = [{ path = 'b', fields = ['txt'] }, { path = 'c', "
      "fields = "
      "['npy'] }] }, { path = 'd' }] }");
  EXPECT_THAT(blend.problems, ElementsAre());
  ASSERT_EQ(blend.data.parts[0].joins.size(), 2u);
  EXPECT_EQ(blend.data.parts[0].joins[1].path, "/base/c");
  EXPECT_EQ(blend.data.parts[1].part, (std::pair<double, double>{0, 1}));
}

TEST(DataInput, EveryKeyButThePathsIsPartOfTheIdentity) {
  const std::vector<const char*> inputs = {
      "{ path = 'a' }",
      "{ path = 'a', shuffle = 1 }",
      "{ path = 'a', part = [0, 0.5] }",
      "{ path = 'a', part = [0.5, 1] }",
      "{ path = 'a', where = 'x > 1' }",
      "{ path = 'a', where = 'x > 2' }",
      "{ path = 'a', join = { path = 'b', fields = ['txt'] } }",
      "{ path = 'a', join = { path = 'b', fields = ['json'] } }",
      "{ path = 'a', join = { path = 'b', fields = ['json', 'txt'] } }",
      "{ path = 'a', join = [{ path = 'b', fields = ['json'] }, { path = 'c', fields = ['txt'] }] }",
      "{ blend = [{ path = 'a', where = 'x > 1' }] }"};
  std::set<std::string> seen;
  for (const char* input : inputs)
    EXPECT_TRUE(seen.insert(read(input).data.identity().dump()).second) << input;
  EXPECT_EQ(read("{ path = 'a', part = [0, 1] }").data.identity(), read("{ path = 'b' }").data.identity());
}

TEST(DataInput, HowItIsReadIsOfTheWholeTableAndNotOfTheIdentity) {
  const auto set = read(
      "{ path = 'a', memory = '2 MB', readers = 0, cache = 'kept/', cache_limit = '1 GiB', max_failed = 0, "
      "max_failed_share = 1, trusted = true }");
  EXPECT_TRUE(set.problems.empty());
  const DataReading& given = set.data.reading;
  EXPECT_EQ(given.memory, 2'000'000u);
  EXPECT_EQ(given.readers, 0);
  EXPECT_EQ(std::filesystem::path(given.cache), std::filesystem::current_path() / "kept/");
  EXPECT_EQ(given.cache_limit, uint64_t{1} << 30);
  EXPECT_EQ(given.max_failed, 0);
  EXPECT_EQ(given.max_failed_share, 1);
  EXPECT_TRUE(given.trusted);
  const auto plain = read("{ path = 'a' }");
  EXPECT_EQ(plain.data.reading.readers, -1);
  EXPECT_EQ(plain.data.reading.max_failed, -1);
  EXPECT_EQ(plain.data.reading.cache, "");
  EXPECT_FALSE(plain.data.reading.trusted);
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
       "run.toml:1:34: 'cache' is of all data; give it at the top of the table"},
      {"{ path = 'a', wher = 'x > 1' }", "run.toml:1:23: unknown key 'wher', did you mean 'where'?"},
      {"{ path = 'a', where = 'x > ' }", "run.toml:1:31: where: column 5: expected a number"},
      {"{ path = 'a', where = 3 }", "'where' must be a text such as \"duration_s > 2\", found 3"},
      {"{ path = 'a', part = [0.9, 0.1] }",
       "run.toml:1:30: part = [0.9,0.1]: must be two numbers from 0 to 1"},
      {"{ path = 'a', part = [0, 1.1] }", "must be two numbers"},
      {"{ path = 'a', part = [-0.1, 1] }", "must be two numbers"},
      {"{ path = 'a', part = [0.5, 0.5] }", "must be two numbers"},
      {"{ path = 'a', part = [0, nan] }", "must be two numbers"},
      {"{ path = 'a', part = [0] }", "must be two numbers"},
      {"{ path = 'a', part = 0.5 }", "must be two numbers"},
      {"{ path = 'a', part = ['0', '1'] }", "must be two numbers"},
      {"{ path = 'a', join = 'b' }", "run.toml:1:30: 'join' must be a table such as { path = "},
      {"{ path = 'a', join = [{ path = 'b', fields = ['x'] }, 3] }", "'join' must be a table"},
      {"{ path = 'a', join = { path = 'b' } }", "'join' needs a path and the fields that are taken"},
      {"{ path = 'a', join = { fields = ['x'] } }", "'join' needs a path"},
      {"{ path = 'a', join = { path = 'b', fields = [] } }", "'join' needs a path"},
      {"{ path = 'a', join = { path = 'b', fields = 'x' } }", "'join' needs a path"},
      {"{ path = 'a', join = { path = 'b', fields = ['x', 1] } }", "'join' needs a path"},
      {"{ path = 'a', join = { path = 1, fields = ['x'] } }", "'path' must be a path"},
      {"{ path = 'a', join = { path = 'b', fields = ['x'], where = 'x' } }", "unknown key 'where'"},
      {"{ path = 'a', join = [{ path = 'b', fields = ['x'] }, { path = 'c', fields = ['x'] }] }",
       "the field 'x' is taken twice"},
      {"{ blend = [{ path = 'a' }], where = 'x > 1' }",
       "run.toml:1:37: 'where' belongs to a set; write it in each part of the blend"}};
  for (const auto& [input, words] : cases)
    EXPECT_THAT(read(input).problems, ElementsAre(HasSubstr(words))) << input;
}

}  // namespace
}  // namespace kinora::core
