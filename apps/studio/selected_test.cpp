// What select jobs have left out of a run.
#include <algorithm>

#include <gmock/gmock.h>

#include "apps/studio/studio_testing.hpp"

namespace kinora::studio {
namespace {

// The run of StudioTest with scores 0, 1, 2 of its kept clips, and a select job over job one.
class SelectedTest : public StudioTest {
 protected:
  SelectedTest() {
    std::ofstream items(folder_ / "one/items.jsonl");
    for (int i = 0; i < 3; ++i)
      items << json{{"key", "k" + std::to_string(i)},
                    {"end", "kept"},
                    {"parent", "f"},
                    {"facts", {{"scores", {{"filter.blur", i}}}}}}
            << "\n";
    fs::create_directories(folder_ / "good");
    std::ofstream(folder_ / "good/job.json")
        << R"({"kind": "select", "options": {"where": "blur > 0 and label == 'sea' and key > 3 and not blur > 9"}})";
    std::ofstream(folder_ / "good/summary.json") << R"({"curated": "one", "left_out_before": 0})";
    std::ofstream(folder_ / "good/decisions.jsonl")
        << R"({"key": "k0", "user": {"label": "sea", "n": "7"}, "end": "filtered", "final": true, "rule": "blur > 0"})"
           "\n"
           R"({"key": "k1", "user": {"label": "sky"}, "end": "filtered", "final": true, "rule": "label == 'sea'"})"
           "\n"
           R"({"key": "k2", "user": {"label": "sea"}, "set": "train", "end": "kept"})"
           "\n";
  }
  static json ids(Studio& studio, const Parameters& query) { return studio.ids(query)["ids"]; }
};

TEST_F(SelectedTest, WhatASelectJobRemovedIsLeftOutByItAndItsFactsCanBeNamed) {
  Studio mia = studio();
  const json state = mia.state(), row = mia.clip({{"id", "one/k1"}});
  EXPECT_EQ(state["choosers"], json::array({"good"}));
  EXPECT_EQ(state["counts"]["rules"], (json{{"good", 2}}));
  EXPECT_EQ(state["counts"]["ends"], (json{{"kept", 4}, {"unchosen", 2}, {"failed", 1}}))
      << "three of job two";
  EXPECT_EQ(row["end"], "unchosen");
  EXPECT_EQ(row["left_out"], (json::array({{{"job", "good"}, {"rule", "label == 'sea'"}}})));
  EXPECT_EQ(row["facts"]["user"]["label"], "sky");
  EXPECT_EQ(ids(mia, {{"rule", "good"}}), (json{"one/k0", "one/k1"}));
  EXPECT_EQ(ids(mia, {{"end", "kept"}, {"where", "has(blur)"}}), json::array({"one/k2"}));
  EXPECT_EQ(ids(mia, {{"where", "set == 'train'"}}), json::array({"one/k2"}));
  EXPECT_EQ(ids(mia, {{"where", "label == 'sea'"}}), (json{"one/k0", "one/k2"}));
  EXPECT_EQ(ids(mia, {{"where", "user.n > 6"}}), json::array({"one/k0"})) << "a text that is a number";
  (void)mia.edit({{"ids", {"one/k1", "one/k2"}}, {"set", {{"keep", false}}}});
  EXPECT_EQ(mia.state()["counts"]["kept_rejected"], 1);
}

TEST_F(SelectedTest, TextsOfFewValuesAreFacetsWhoseCountsAreThoseOfTheirConditions) {
  std::ofstream(folder_ / "good/decisions.jsonl")
      << R"({"key": "k0", "user": {"label": "sea", "the n": "7"}, "set": "val", "end": "kept"})"
         "\n"
         R"({"key": "k1", "user": {"label": "sky", "the n": "8"}, "set": "train", "end": "kept"})"
         "\n"
         R"({"key": "k2", "user": {"label": "sea", "the w": "x"}, "set": "train", "end": "kept"})"
         "\n";
  Studio mia = studio();
  const json state = mia.state(), counts = state["counts"]["facets"];
  EXPECT_EQ(
      state["facets"],
      (json::array({{{"field", "set"}, {"name", "set"}}, {{"field", "user.label"}, {"name", "user.label"}}})))
      << "numbers have a histogram, and one value tells nothing apart";
  EXPECT_EQ(counts["set"], (json{{"train", 2}, {"val", 1}}));
  for (const json& facet : state["facets"])
    for (const auto& [value, clips] : counts[facet["field"].get<std::string>()].items()) {
      const std::string where = facet["name"].get<std::string>() + " == '" + value + "'";
      EXPECT_EQ(ids(mia, {{"where", where}}).size(), clips.get<size_t>()) << where;
    }
}

TEST_F(SelectedTest, ItsFolderOpensTheRun) {
  Studio mia(folder_ / "good", "mia",
             [](const auto&, const auto&) { return std::vector<std::vector<float>>(); });
  EXPECT_EQ(mia.state()["jobs"], (json{"one", "two"}));
}

TEST_F(SelectedTest, ItsConditionsAreBoundsThatCanBeMoved) {
  Studio mia = studio();
  const json histograms = mia.histograms({});
  const auto blur =
      std::ranges::find_if(histograms, [](const json& h) { return h["field"] == "scores.filter.blur"; });
  ASSERT_NE(blur, histograms.end());
  EXPECT_EQ((*blur)["bounds"], (json::array({{{"job", "good"},
                                              {"select", "good"},
                                              {"stage", ""},
                                              {"option", "blur"},
                                              {"is_most", false},
                                              {"is_strict", true},
                                              {"value", 0.0}}})));
  const auto at = [&](const char* value) {
    return mia.bound(
        {{"field", "scores.filter.blur"}, {"side", "least"}, {"value", value}, {"select", "good"}});
  };
  EXPECT_EQ(at("2"), (json{{"gone", 1}, {"back", 0}, {"where", "blur > 2"}})) << "k2 equals it";
  EXPECT_EQ(at("-1"), (json{{"gone", 0}, {"back", 1}, {"where", "blur > -1"}}))
      << "k1 is out by another condition";
}

// The numbers are those of the summaries, whatever people have decided since.
TEST_F(SelectedTest, TheFunnelIsThatOfTheRun) {
  EXPECT_EQ(studio().state()["funnel"], json::array()) << "the summaries say nothing";
  const json clips{{"kept", 3}, {"filtered", 1}, {"failed", 1}};
  std::ofstream(folder_ / "one/summary.json")
      << json{{"job", "one"}, {"kind", "curate"}, {"kept", 2}, {"clips", clips}};
  std::ofstream(folder_ / "good/summary.json")
      << R"({"job": "good", "kind": "select", "curated": "one", "clips": {"kept": 1, "filtered": 2}})";
  Studio mia = studio();
  const json steps = mia.state()["funnel"];
  std::vector<std::pair<std::string, int>> told;
  for (const json& step : steps) told.emplace_back(step["name"], step["count"]);
  EXPECT_THAT(told, testing::ElementsAre(testing::Pair("videos", 2), testing::Pair("clips", 5),
                                         testing::Pair("good", 3), testing::Pair("chosen", 1)));
  EXPECT_EQ(steps[3]["lost"], (json::array({{{"by", "good"}, {"count", 2}}})));
  (void)mia.edit({{"ids", {"one/k2"}}, {"set", {{"keep", false}}}});
  EXPECT_EQ(mia.state()["funnel"], steps);
}

// A second job that reads the first: what came not in is not left out by it.
TEST_F(SelectedTest, AChainOfSelectJobsLeavesOutEachClipOnce) {
  fs::create_directories(folder_ / "after");
  std::ofstream(folder_ / "after/job.json") << R"({"kind": "select", "options": {"where": ""}})";
  std::ofstream(folder_ / "after/summary.json") << R"({"curated": "one", "left_out_before": 2})";
  std::ifstream first(folder_ / "good/decisions.jsonl");
  std::ofstream second(folder_ / "after/decisions.jsonl");
  for (std::string line; std::getline(first, line);)
    if (line.find("\"k2\"") == line.npos) second << line << "\n";
  second << R"({"key": "k2", "end": "filtered", "final": true, "rule": "count"})"
         << "\n";
  second.close();
  Studio mia = studio();
  EXPECT_EQ(mia.state()["choosers"], (json{"good", "after"}));
  EXPECT_EQ(mia.state()["counts"]["rules"], (json{{"after", 1}, {"good", 2}}));
  EXPECT_EQ(mia.clip({{"id", "one/k2"}})["left_out"], (json::array({{{"job", "after"}, {"rule", "count"}}})));
  EXPECT_EQ(mia.clip({{"id", "one/k2"}})["end"], "unchosen");
  std::ofstream(folder_ / "after/summary.json") << R"({"curated": "one", "left_out_before": 0})";
  std::ofstream(folder_ / "after/decisions.jsonl")
      << R"({"key": "k0", "end": "kept"})"
      << "\n"
      << R"({"key": "k2", "end": "filtered", "final": true, "rule": "count"})"
      << "\n";
  Studio tom = studio("tom");
  EXPECT_EQ(tom.clip({{"id", "one/k2"}})["end"], "kept")
      << "the other job, which does not read this one, chooses it";
}

}  // namespace
}  // namespace kinora::studio
