#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/runtime/runtime.hpp"
#include "kinora/npy.hpp"
#include "plugins/jobs/select/candidates.hpp"
#include "plugins/jobs/select/embeddings.hpp"
#include "plugins/jobs/select/sampling.hpp"
#include "plugins/jobs/select/user_tables.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
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
  EXPECT_EQ(csv.row("a")->values, (json{{"label", "cat"}, {"note", "x, y"}}));
  EXPECT_EQ(csv.row("b")->values, json::object());
  EXPECT_THAT(csv.columns(), ElementsAre("label", "note"));
  EXPECT_EQ(csv.first_key_without({}), "a");
  EXPECT_EQ(csv.first_key_without({csv.row("a")}), "b");
  EXPECT_EQ(csv.first_key_without({csv.row("b"), csv.row("a")}), "");
  EXPECT_EQ(csv.row("c"), nullptr);
  const UserTable lines("t.jsonl", "{\"film\": 7, \"year\": 1922}\n\n{\"film\": \"x\", \"tags\": [1]}",
                        "film");
  EXPECT_EQ(lines.row("7")->values, (json{{"year", 1922}}));
  EXPECT_EQ(lines.row("x")->values, (json{{"tags", {1}}}));
  EXPECT_EQ(lines.size(), 2u);
  const UserTable of_python("t.jsonl", "{\"key\": \"a\", \"x\": NaN, \"y\": [-Infinity, 1]}", "key");
  EXPECT_EQ(of_python.row("a")->values, (json{{"x", nullptr}, {"y", {nullptr, 1}}}));
}

TEST(UserTable, NamesTheRowAtFault) {
  const std::vector<std::tuple<const char*, const char*, const char*>> cases = {
      {"t.csv", "clip,label\na,1\n", "t.csv: row 1: it names the columns, and none is called 'key'"},
      {"t.csv", "key,x,x\n",
       "t.csv: line 1: columns 2 and 3 are both called 'x'; rename or remove one of them"},
      {"t.csv", "key,x\na,1\nb\n", "t.csv: row 3: 1 fields, but the first line names 2 columns"},
      {"t.csv", "key,x,,\na,1,2,3\n",
       "t.csv: row 2: two nameless columns have a value, the second is column 4"},
      {"t.csv", "key;x\na;1\n",
       "none is called 'key': the columns are separated by ';'; separate them by ','"},
      {"t.csv", "key\tx\n", "the columns are separated by tabs"},
      {"t.csv", "key,x\n,1\n", "t.csv: row 2: it has no 'key'"},
      {"t.csv", "key,x\na,1\na,2\n", "t.csv: row 3: 'a' has row 2 already"},
      {"t.csv", "key,x\na,\"1\n", "a quote is not closed"},
      {"t.jsonl", "{\"key\": \"a\"}\n[1]\n", "t.jsonl: row 2: it is not a JSON object"},
      {"t.jsonl", "{\"key\": null}\n", "it has no 'key'"}};
  for (const auto& [name, text, words] : cases)
    EXPECT_THAT(refusal([&, name = name, text = text] { UserTable(name, text, "key"); }), HasSubstr(words));
  const UserTable of_a_spreadsheet("t.csv", "key,x,,\r\na,1,,\r\nb,2,,more\r\n", "key");
  EXPECT_EQ(of_a_spreadsheet.row("a")->values, (json{{"x", "1"}}));
  EXPECT_EQ(of_a_spreadsheet.row("b")->values, (json{{"x", "2"}, {"", "more"}}));
  EXPECT_EQ(problem_of_table("a/b.CSV"), "");
  EXPECT_THAT(problem_of_table("t.parquet"), HasSubstr("must be a .csv or .jsonl file; convert it"));
  EXPECT_THAT(problem_of_table("t.txt"), HasSubstr("must be a .csv or .jsonl file"));
}

TEST(MovedShares, LeaveNoSetEmptyFromThreeOn) {
  const std::vector<double> asked{0.9, 0.1};
  EXPECT_THAT(moved_shares(asked, {0.1, 0.5, 0.89}), ElementsAre(std::pair(0.89, size_t{1})));
  EXPECT_THAT(moved_shares(asked, {0.91, 0.95, 0.99}), ElementsAre(std::pair(0.91, size_t{0})));
  EXPECT_TRUE(moved_shares(asked, {0.1, 0.5, 0.95}).empty());
  EXPECT_TRUE(moved_shares(asked, {0.1, 0.5}).empty());
  EXPECT_THAT(moved_shares({0.8, 0.1, 0.1}, {0.1, 0.2, 0.3}),
              ElementsAre(std::pair(0.2, size_t{2}), std::pair(0.3, size_t{1})));
  EXPECT_TRUE(moved_shares({0.5, 0.2, 0.2, 0.1}, {0.1, 0.2, 0.3}).empty());
  std::set<double> many;  // only the nearest moves
  for (int i = 0; i < 100; ++i) many.insert(i / 200.0);
  EXPECT_THAT(moved_shares(asked, many), ElementsAre(std::pair(99 / 200.0, size_t{1})));
}

class Candidates : public testing::Test {
 protected:
  Candidates() : folder_(fs::path(testing::TempDir()) / ("candidates-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Candidates() override { fs::remove_all(folder_); }
  // facts: of the clips c-0, c-1, ...
  void put(const std::vector<json>& facts) const {
    std::ofstream out(folder_ / "items.jsonl");
    for (size_t i = 0; i < facts.size(); ++i)
      out << json{{"end", "kept"}, {"key", "c-" + std::to_string(i)}, {"facts", facts[i]}}.dump() << "\n";
  }
  Choice choice(const std::string& where = "", std::vector<UserTable> tables = {}) const {
    return {.name = "chosen",
            .curated = folder_,
            .decisions = {},
            .where = Where(where),
            .per = {},
            .sets_by = "",
            .join_key = "key",
            .tables = std::move(tables),
            .threads = 1};
  }
  // The keys that stay, or what was refused.
  static std::vector<std::string> kept(Choice choice) {
    std::vector<std::string> out;
    const auto refused = refusal([&] {
      for (const auto& clip : CandidateReader(std::move(choice)).read())
        if (clip.removed_by == kStays) out.push_back(clip.key);
    });
    return refused == "nothing was refused" ? out : std::vector<std::string>{refused};
  }
  fs::path folder_;
};

TEST_F(Candidates, OfTwoJobsAreSplitIndependently) {
  std::vector<json> facts;
  for (int i = 0; i < 4000; ++i) facts.push_back({{"film", "f" + std::to_string(i / 2)}});
  put(facts);
  const auto shares = [&](const std::string& job) {
    Choice of = choice();
    of.name = job, of.sets_by = "film";
    std::vector<double> out;
    for (const auto& clip : CandidateReader(std::move(of)).read()) out.push_back(clip.share);
    return out;
  };
  const auto first = shares("first"), second = shares("second");
  EXPECT_EQ(shares("first"), first);
  size_t of_first = 0, of_both = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i], first[i ^ 1]) << "clips of a video are together";
    of_first += first[i] < 0.5;
    of_both += first[i] < 0.5 && second[i] < 0.25;
  }
  // The expected numbers of 2,000 videos are 1,000 and 250; the bounds are seven standard deviations.
  EXPECT_NEAR(static_cast<double>(of_first) / 2, 1000, 160);
  EXPECT_NEAR(static_cast<double>(of_both) / 2, 250, 100);
}

TEST_F(Candidates, OfOtherValuesAreInOtherBins) {
  const std::vector<json> values{{{"city", "x, y"}, {"lab", "z"}},
                                 {{"city", "x"}, {"lab", "y, z"}},
                                 {{"lab", "z"}},
                                 {{"city", "no city"}, {"lab", "z"}},
                                 {{"city", "\"no city\""}, {"lab", "z"}},
                                 {{"city", {"x", "y"}}, {"lab", "z"}},
                                 {{"city", "[\"x\",\"y\"]"}, {"lab", "z"}},
                                 {{"city", "sea"}, {"lab", 16}},
                                 {{"city", "sea"}, {"lab", "16"}}};
  std::vector<json> facts;
  for (const auto& user : values) facts.push_back({{"user", user}});
  put(facts);
  Choice by_two = choice();
  by_two.per = {"city", "lab"};
  std::vector<std::string> bins;
  for (const auto& clip : CandidateReader(std::move(by_two)).read()) bins.push_back(clip.bin);
  EXPECT_EQ(std::set<std::string>(bins.begin(), bins.end()).size(), values.size() - 1);
  EXPECT_EQ(bins[0], "\"x, y\", z");
  EXPECT_EQ(bins[2], "no city, z");
  EXPECT_EQ(bins[3], "\"no city\", z");
  EXPECT_EQ(bins[7], "sea, 16");
  EXPECT_EQ(bins[8], bins[7]) << "a number and the text of a CSV";
}

TEST_F(Candidates, WithoutAnyRowAreAnErrorOfTheJoin) {
  put({{{"v", 1}}, {{"v", 2}}});
  const std::string spaces = "key,q\nc-0 ,1\nc-1 ,2\n";
  EXPECT_THAT(kept(choice("q > 0 and v > 0", {{"t.csv", spaces, "key"}})),
              ElementsAre(testing::AllOf(HasSubstr("join: t.csv: none of its 2 rows is about a clip"),
                                         HasSubstr("in the first row 'c-0 '"))));
  CandidateReader half(choice("q > 1", {{"t.csv", "key,q\nx,1\nc-1,2\ny,3\n", "key"}}));
  EXPECT_EQ(half.read().size(), 2u);
  EXPECT_EQ(half.joined()[0].clips, 1u);
  EXPECT_EQ(half.joined()[0].rows.size(), 1u);
  EXPECT_EQ(half.tables()[0].first_key_without(half.joined()[0].rows), "x");
}

TEST_F(Candidates, WithAFactAndAColumnOfOneNameAreRefusedIfItIsUsed) {
  put({{{"width", 640}, {"tags", {"sea"}}, {"scores", {{"filter.blur", 5}}}, {"user", {{"label", "old"}}}}});
  const auto with = [&](const std::string& where) {
    return kept(choice(where, {{"t.csv", "key,width,blur,label,tags,a b\nc-0,7,95,new,dark,1\n", "key"}}));
  };
  EXPECT_THAT(
      with("blur >= 90"),
      ElementsAre("where: 'blur' is a fact of the clips, scores.filter.blur, and a column of t.csv; write "
                  "user.blur for the column, and scores.filter.blur for the fact"));
  EXPECT_THAT(
      with("width >= 5"),
      ElementsAre("where: 'width' is a fact of the clips and a column of t.csv; write user.width for the "
                  "column, and rename the column if you mean the fact"));
  EXPECT_THAT(with("tags contains 'dark'"), ElementsAre(HasSubstr("write user.tags for the column")));
  EXPECT_THAT(with("user.blur == 95 and scores.filter.blur == 5 and user.width == 7"), ElementsAre("c-0"));
  EXPECT_THAT(with("label == 'new' and `a b` == 1"), ElementsAre("c-0"))
      << "columns replace the clips' own user facts";
  Choice per = choice("", {{"t.csv", "key,width\nc-0,7\n", "key"}});
  per.per = {"width"};
  EXPECT_THAT(kept(std::move(per)),
              ElementsAre(HasSubstr("per: 'width' is a fact of the clips and a column")));
}

TEST_F(Candidates, EmbeddingsThatAreNotFiniteAreNamed) {
  const auto runtime = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
  const auto put_embedding = [&](const char* key, const std::vector<float>& values) {
    std::ofstream(folder_ / (std::string(key) + ".classic.npy"), std::ios::binary)
        << to_npy(values, {static_cast<int64_t>(values.size())});
  };
  const auto read = [&](uint64_t memory = 1 << 20) {
    return read_embeddings(runtime->io(), folder_, "classic", {"a", "b"}, memory);
  };
  put_embedding("a", {1, 2});
  EXPECT_THAT(refusal(read), HasSubstr("clip 'b' has no embedding 'classic'"));
  put_embedding("b", {3, 4});
  EXPECT_THAT(read().values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(read().size, 2u);
  EXPECT_THAT(refusal([&] { read(15); }), HasSubstr("the embeddings of 2 clips need 16"));
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    put_embedding("b", {3, odd});
    EXPECT_THAT(refusal(read),
                HasSubstr("clip 'b': its embedding 'classic' has a number that is not finite"));
  }
}

}  // namespace
}  // namespace kinora::core
