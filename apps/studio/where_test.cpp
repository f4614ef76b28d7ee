#include "apps/studio/where.hpp"

#include <fstream>
#include <random>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using core::Tags;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A finished job of kept clips with facts.
class WhereTest : public testing::Test {
 protected:
  WhereTest() {
    std::string name = (fs::temp_directory_path() / "kinora-where-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "clips/data");
    std::ofstream(folder_ / "clips/job.json") << R"({"kind": "curate"})";
    std::ofstream(folder_ / "clips/summary.json") << "{}";
  }
  ~WhereTest() override { fs::remove_all(folder_); }

  void add(const std::string& key, const json& facts) {
    std::ofstream(folder_ / "clips/items.jsonl", std::ios::app)
        << json{{"key", key}, {"end", "kept"}, {"parent", "f"}, {"facts", facts}} << "\n";
  }
  void read() { catalogue_ = read_catalogue(curate_jobs(folder_)); }
  Shelf shelf(const Query& query) {
    Shelf out{catalogue_, [this](const Clip& clip) { return edits_.contains(clip.key) ? edits_.at(clip.key) : Change(); }};
    if (!query.where.empty()) out.holds = facts_.condition(query.where, catalogue_, out.edits);
    return out;
  }
  std::vector<std::string> keys(const Query& query) {
    std::vector<std::string> out;
    for (const size_t i : select(shelf(query), query)) out.push_back(catalogue_.clips[i].key);
    return out;
  }
  std::vector<std::string> keys_where(const std::string& where) {
    Query query;
    query.where = where;
    return keys(query);
  }
  std::string where(const Query& query) { return where_of(shelf(query), query, select(shelf(query), query)); }
  std::string error(const std::string& condition) {
    try {
      (void)keys_where(condition);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  fs::path folder_;
  Catalogue catalogue_;
  std::map<std::string, Change> edits_;
  Facts facts_;
};

TEST_F(WhereTest, NumbersTextsAndTagsSelect) {
  add("a", {{"codec", "h264"}, {"duration_s", 2}, {"tags", {"sea"}}});
  add("b", {{"codec", "hevc"}, {"duration_s", 5}, {"scores", {{"filter.blur", 8}}}, {"tags", {"sea", "calm"}}});
  add("c", {{"duration_s", 7.5}});
  read();
  edits_["a"].tags = Tags{};
  edits_["c"].tags = Tags{"sea", "it's"};
  EXPECT_THAT(keys_where("duration_s > 2"), ElementsAre("b", "c"));
  EXPECT_THAT(keys_where("blur < 9"), ElementsAre("b")) << "the short name";
  EXPECT_THAT(keys_where("codec == 'h264' or key == 'c'"), ElementsAre("a", "c"));
  EXPECT_THAT(keys_where("tags contains 'sea'"), ElementsAre("b", "c")) << "people's tags replace the job's";
  EXPECT_THAT(keys_where("not has(codec)"), ElementsAre("c"));
  Query tagged;
  tagged.tags = {"it's", "calm"};
  EXPECT_EQ(where(tagged), R"((tags contains 'calm' or tags contains 'it\'s'))");
  EXPECT_THAT(keys_where(where(tagged)), ElementsAre("b", "c"));
}

TEST_F(WhereTest, AWrongConditionSaysWhatAndWhere) {
  add("a", {{"codec", "h264"}, {"duration_s", 2}});
  read();
  EXPECT_THAT(error("duration_s >"), HasSubstr("where: column 13: expected a number"));
  EXPECT_THAT(error("duration > 2"), HasSubstr("where: no clip has the fact 'duration', did you mean 'duration_s'?"));
  EXPECT_EQ(error("has(duration) or key == 'a'"), "no error");
  EXPECT_EQ(error("tags contains 'x'"), "no error") << "no clip has a tag yet";
}

// Random views of numbers, tags and a condition: the text selects what the view shows.
TEST_F(WhereTest, TheTextOfAViewSelectsItsClips) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 60; ++i) {
    json facts{{"x", below(10)}, {"scores", {{"filter.blur", below(1000) / 7.0}}}};
    if (below(2)) facts["tags"] = {below(2) ? "sea" : "calm"};
    add("k" + std::to_string(100 + i), facts);
  }
  read();
  for (int round = 0; round < 200; ++round) {
    Query query;
    const auto value = [&](const char* column) { return catalogue_.columns.at(column)[static_cast<size_t>(below(60))]; };
    for (const char* column : {"x", "scores.filter.blur"})
      if (below(2)) {
        const double a = value(column), b = value(column);
        query.ranges[column] = {std::min(a, b), std::max(a, b)};
      }
    if (below(2)) query.tags = {"sea"};
    if (below(3) == 0) query.tags.insert("calm");
    if (below(2)) query.where = "x == 3 or x > 5";
    Query by_text;
    by_text.where = where(query);
    EXPECT_EQ(keys(by_text), keys(query)) << by_text.where;
  }
}

TEST_F(WhereTest, WhatIsNoFactBecomesAListOfKeys) {
  for (const char* key : {"a", "it's", "c"}) add(key, {{"x", 1}});
  read();
  edits_["it's"].keep = false;
  Query rejected;
  rejected.decisions = {"rejected"};
  EXPECT_EQ(where(rejected), R"(key in ['it\'s'])");
  EXPECT_THAT(keys_where(where(rejected)), ElementsAre("it's"));
  rejected.decisions = {"accepted"};
  EXPECT_THROW((void)where(rejected), Error) << "no clip";
  EXPECT_EQ(where({}), "");
}

}  // namespace
}  // namespace kinora::studio
