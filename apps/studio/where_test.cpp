#include "apps/studio/where.hpp"

#include <fstream>
#include <random>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/where.hpp"

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
  QueryScope scope(const Query& query) {
    QueryScope out{catalogue_, [this](const Clip& clip) {
                     return edits_.contains(clip.key) ? edits_.at(clip.key) : Change();
                   }};
    if (!query.where.empty()) out.holds = facts_.condition(query.where, catalogue_, out.edits);
    return out;
  }
  std::vector<std::string> keys(const Query& query) {
    std::vector<std::string> out;
    for (const size_t i : select(scope(query), query)) out.push_back(catalogue_.clips[i].key);
    return out;
  }
  std::vector<std::string> keys_where(const std::string& where) {
    Query query;
    query.where = where;
    return keys(query);
  }
  std::string where(const Query& query) { return where_of(scope(query), query, select(scope(query), query)); }
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
  add("b",
      {{"codec", "hevc"}, {"duration_s", 5}, {"scores", {{"filter.blur", 8}}}, {"tags", {"sea", "calm"}}});
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

// A click on one of few values must not wait for the lines of all clips. A text of many values, one that is none in
// another clip, and videos that were cut are in the lines alone.
TEST_F(WhereTest, TextsOfFewValuesNeedNoLines) {
  for (int n = 10; n < 30; ++n)
    add("k" + std::to_string(n), {{"set", n < 15 ? "val" : "train"},
                                  {"many", std::to_string(n) + "th"},
                                  {"mixed", n == 12 ? json(true) : json("no")},
                                  {"user", {{"label", n < 13 ? "sea" : "sky"}}}});
  json film{{"key", "film"}, {"end", "kept"}, {"consumed", true}, {"url", "/f"}};
  film["facts"] = {{"set", "val"}};
  std::ofstream(folder_ / "clips/items.jsonl", std::ios::app) << film << "\n";
  read();
  Query videos;
  videos.kinds = {"video"};
  videos.where = "set == 'val'";
  EXPECT_THAT(keys(videos), ElementsAre("film"));
  EXPECT_THAT(keys_where("mixed == true"), ElementsAre("k12"));
  facts_.forget();
  fs::remove(folder_ / "clips/items.jsonl");
  EXPECT_THAT(keys_where("set == 'val' and label == 'sea'"), ElementsAre("k10", "k11", "k12"));
  EXPECT_EQ(keys_where("not has(label) or set in ['train', 'val']").size(), 20U);
  EXPECT_TRUE(keys_where("many == '12th'").empty());
}

TEST_F(WhereTest, AWrongConditionSaysWhatAndWhere) {
  add("a", {{"codec", "h264"}, {"duration_s", 2}, {"bin", {{"aspect", "16_9"}}}});
  read();
  EXPECT_THAT(error("duration_s >"), HasSubstr("where: column 13: expected a number"));
  EXPECT_THAT(error("duration > 2"),
              HasSubstr("where: no clip has the fact 'duration', did you mean 'duration_s'?"));
  EXPECT_THAT(error("licence == 'cc0'"), HasSubstr("'licence'; facts: bin.aspect, codec, duration_s"))
      << "texts, and parts of objects";
  EXPECT_EQ(error("has(duration) or key == 'a'"), "no error");
  EXPECT_EQ(error("duration_s > '1'"),
            "where: column 1: duration_s is a number, such as 2.0, so it is never compared with '1'; write a "
            "number without quotes");
  EXPECT_THAT(
      error("key == 'a' or codec > 264"),
      HasSubstr("where: column 15: codec is a text, such as 'h264', so it is never compared with 264"));
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
    const auto value = [&](const char* column) {
      return catalogue_.columns.at(column)[static_cast<size_t>(below(60))];
    };
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

// Facts that are numbers in some clips and something else in others: a condition selects what core::Where,
// which select jobs ask, says of each clip's facts.
TEST_F(WhereTest, AConditionOnMixedFactsSelectsWhatASelectJobChooses) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  const json values{1,
                    2,
                    3.5,
                    -4,
                    "2",
                    " 3.5 ",
                    "sea",
                    true,
                    nullptr,
                    json::array({"sea", 2}),
                    json::object({{"n", 2}}),
                    9007199254740993};
  // Each value is in the first clips under every name, so that every type is there.
  const auto pick = [&](size_t clip, json& to, const char* name) {
    if (clip < values.size() || below(4) > 0)
      to[name] = values[clip < values.size() ? clip : below(values.size())];
  };
  std::map<std::string, json> all;
  for (size_t i = 0; i < 80; ++i) {
    json facts{{"plain", i}, {"user", json::object()}, {"scores", json::object()}};
    for (const char* name : {"a", "b"}) pick(i, facts, name);
    for (const char* name : {"a", "c", "tags"}) pick(i, facts["user"], name);
    for (const char* name : {"filter.c", "d"}) pick(i, facts["scores"], name);
    if (i >= values.size() && below(3) == 0)
      facts["tags"] = below(2) ? json::array({"sea"}) : json("seaside");
    const std::string key = "k" + std::to_string(100 + i);
    add(key, all[key] = facts);
  }
  read();
  const std::vector<std::string> names{"a", "b", "c", "d", "user.a", "user.c", "scores.d", "plain", "tags"},
      tests{" == 2",          " != 2",
            " < 3",           " >= 2",
            " == '2'",        " == 'sea'",
            " == true",       " contains 'sea'",
            " in [2, 'sea']", " == 9007199254740992"};
  const auto one = [&]() -> std::string {
    const std::string& name = names[below(names.size())];
    const size_t comparable = name == "plain" ? 4 : tests.size();  // a number in every clip
    return (below(4) ? "" : "not ") + (below(6) ? name + tests[below(comparable)] : "has(" + name + ")");
  };
  for (int round = 0; round < 500; ++round) {
    const std::string text = one() + (below(2) ? " and " : " or ") + one();
    const core::Where where(text);
    std::vector<std::string> expected;
    for (const auto& [key, facts] : all)
      if (!where.removed_by(facts, key)) expected.push_back(key);
    EXPECT_EQ(keys_where(text), expected) << text;
  }
}

TEST_F(WhereTest, TheTextOfABarHasShortNumbersAndSelectsItsClips) {
  for (const auto& [key, blur] : std::map<std::string, double>{
           {"a", 480.25}, {"b", 529.2873035005745}, {"c", 571.5}, {"d", 812.123456}})
    add(key, {{"scores", {{"filter.blur", blur}}}});
  read();
  Query bar;
  bar.ranges["scores.filter.blur"] = {529.2873035005745, 571.49};
  EXPECT_EQ(where(bar), "scores.filter.blur >= 529 and scores.filter.blur < 571");
  bar.ranges["scores.filter.blur"] = {529.29, 812.123456};
  EXPECT_EQ(where(bar), "scores.filter.blur >= 529.3 and scores.filter.blur <= 812.1235")
      << "529 would be below the second clip";
  EXPECT_THAT(keys_where(where(bar)), ElementsAre("c", "d"));
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
