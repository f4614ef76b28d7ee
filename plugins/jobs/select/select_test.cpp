#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/select/sampling.hpp"
#include "plugins/jobs/select/user_tables.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

std::set<std::string> chosen(const std::vector<std::string>& keys, size_t count, int64_t seed) {
  std::set<std::string> out;
  for (const size_t place : random_places(keys, count, seed)) out.insert(keys[place]);
  return out;
}

TEST(RandomPlaces, DependOnTheSeedAndTheKeysAlone) {
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("clip-" + std::to_string(i));
  const auto ten = chosen(keys, 10, 1);
  std::reverse(keys.begin(), keys.end());
  EXPECT_EQ(chosen(keys, 10, 1), ten);
  EXPECT_NE(chosen(keys, 10, 2), ten);
  EXPECT_EQ(chosen(keys, 500, 1).size(), keys.size());
  keys.emplace_back("one more");
  std::vector<std::string> left;
  const auto with = chosen(keys, 10, 1);
  std::set_difference(ten.begin(), ten.end(), with.begin(), with.end(), std::back_inserter(left));
  EXPECT_LE(left.size(), 1u);
}

TEST(FarthestPlaces, ChooseTheLeastSimilarNext) {
  // Directions in the plane at 0, 10, 90, 180 and 100 degrees, and a row of zeros, which has the cosine 0 with all.
  std::vector<float> rows{2, 0, 0.985f, 0.174f, 0, 3, -1, 0, -0.174f, 0.985f, 0, 0};
  std::vector<size_t> steps;
  const auto step = [&](size_t done) { steps.push_back(done); };
  EXPECT_THAT(farthest_places(rows, 2, 4, {}, step), ElementsAre(0, 3, 2, 5));
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(farthest_places(rows, 2, 2, {1}, step), ElementsAre(1, 3));
  EXPECT_EQ(farthest_places(rows, 2, 9, {}, step).size(), 6u);
  std::vector<float> none;
  EXPECT_TRUE(farthest_places(none, 0, 3, {}, step).empty());
}

TEST(UserTable, HasTheOtherColumnsOfARow) {
  const UserTable csv("t.csv", "label,key,note\r\ncat,a,\"x, y\"\r\n,b,\r\n", "key");
  EXPECT_EQ(*csv.row("a"), (json{{"label", "cat"}, {"note", "x, y"}}));
  EXPECT_EQ(*csv.row("b"), json::object());
  EXPECT_EQ(csv.row("c"), nullptr);
  const UserTable lines("t.jsonl", "{\"film\": 7, \"year\": 1922}\n\n{\"film\": \"x\", \"tags\": [1]}",
                        "film");
  EXPECT_EQ(*lines.row("7"), (json{{"year", 1922}}));
  EXPECT_EQ(*lines.row("x"), (json{{"tags", {1}}}));
  EXPECT_EQ(lines.size(), 2u);
}

TEST(UserTable, NamesTheRowAtFault) {
  const std::vector<std::tuple<const char*, const char*, const char*>> cases = {
      {"t.csv", "clip,label\na,1\n", "t.csv: row 1: it names the columns, and none is called 'key'"},
      {"t.csv", "key,x,x\n", "two columns have one name"},
      {"t.csv", "key,x\na,1\nb\n", "t.csv: row 3: it has 1 fields where the first row names 2 columns"},
      {"t.csv", "key,x\n,1\n", "t.csv: row 2: it has no 'key'"},
      {"t.csv", "key,x\na,1\na,2\n", "t.csv: row 3: 'a' has row 2 already"},
      {"t.csv", "key,x\na,\"1\n", "a quote is not closed"},
      {"t.jsonl", "{\"key\": \"a\"}\n[1]\n", "t.jsonl: row 2: it is not a JSON object"},
      {"t.jsonl", "{\"key\": null}\n", "it has no 'key'"}};
  for (const auto& [name, text, words] : cases)
    EXPECT_THAT(refusal([&, name = name, text = text] { UserTable(name, text, "key"); }), HasSubstr(words));
  EXPECT_EQ(problem_of_table("a/b.CSV"), "");
  EXPECT_THAT(problem_of_table("t.parquet"), HasSubstr("must be a .csv or .jsonl file; convert it"));
  EXPECT_THAT(problem_of_table("t.txt"), HasSubstr("must be a .csv or .jsonl file"));
}

}  // namespace
}  // namespace kinora::core
