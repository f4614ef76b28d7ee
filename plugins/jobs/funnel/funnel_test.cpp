// Tests that the funnel's numbers are those of the summaries.
#include "plugins/jobs/funnel/funnel.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using nlohmann::json;

json ends(int kept, int filtered, int failed) {
  return {{"kept", kept}, {"filtered", filtered}, {"failed", failed}};
}

json curate(const char* job, const json& inputs, const json& clips) {
  json out{{"job", job}, {"kind", "curate"}, {"clips", clips}, {"inputs", 0}};
  out.update(inputs);
  return out;
}

json chooser(const char* job, const char* kind, const char* of, const json& clips) {
  return {{"job", job}, {"kind", kind}, {"curated", of}, {"clips", clips}};
}

const std::vector<json> kRun{curate("clips", ends(21, 1, 1), ends(62, 2, 1)),
                             chooser("chosen", "select", "clips", ends(53, 9, 0)),
                             chooser("copies", "dedup", "clips", ends(49, 3, 1)),
                             chooser("sets", "select", "clips", ends(49, 0, 0)),
                             {{"job", "text"}, {"kind", "embed-text"}, {"clips", 62}},
                             {{"job", "shards"}, {"kind", "shard"}, {"samples", 44}, {"given", 49}}};

// Each step's number is in a summary, and what fell is the difference between two steps.
TEST(Funnel, EqualsTheSummaries) {
  const auto steps = funnel_of(kRun);
  EXPECT_EQ(funnel_json(steps), json::parse(R"([{"name": "videos", "count": 23, "lost": []},
       {"name": "clips", "count": 65, "lost": [{"by": "filtered", "count": 1}, {"by": "failed", "count": 1}]},
       {"name": "good", "count": 62, "lost": [{"by": "filtered", "count": 2}, {"by": "failed", "count": 1}]},
       {"name": "chosen", "count": 49, "lost": [{"by": "chosen", "count": 9}, {"by": "copies", "count": 4}]},
       {"name": "in shards", "count": 44, "lost": [{"by": "", "count": 5}]}])"));
  for (size_t i = 2; i < steps.size(); ++i) {
    int64_t lost = 0;
    for (const auto& loss : steps[i].lost) lost += loss.count;
    EXPECT_EQ(steps[i - 1].count - lost, steps[i].count) << steps[i].name;
  }
  EXPECT_EQ(funnel_line(steps), "23 videos → 65 clips → 62 good → 49 chosen → 44 in shards");
}

// Each job that reads the curate job counts the clips that people rejected; they fall once.
TEST(Funnel, ARejectedClipIsNotTheJobs) {
  auto summaries = kRun;
  summaries[1]["rules"] = {{"studio.reject", 2}, {"blur >= 20", 7}};
  summaries[2]["rules"] = {{"studio.reject", 2}, {"dedup.exact", 1}};
  EXPECT_EQ(funnel_json(funnel_of(summaries))[3]["lost"], json::parse(R"([{"by": "chosen", "count": 7},
       {"by": "copies", "count": 2}, {"by": "", "count": 2}])"));
  summaries[1]["rules"] = {{"studio.reject", 9}};
  summaries[2]["rules"] = {{"studio.reject", -1}};
  EXPECT_EQ(funnel_json(funnel_of(summaries))[3]["lost"],
            json::parse(R"([{"by": "copies", "count": 4}, {"by": "", "count": 9}])"));
}

TEST(Funnel, HasTheStepsThatTheRunHas) {
  struct Case {
    std::vector<json> summaries;
    const char* line;
  };
  const json one = curate("a", ends(1, 0, 0), ends(1, 0, 0)),
             pictures = curate("a", ends(7, 2, 1), json::object());
  for (const auto& [summaries, line] : std::vector<Case>{
           {{}, ""},
           {{chooser("b", "select", "a", ends(1, 0, 0))}, ""},
           {{one}, "1 video → 1 clip → 1 good"},
           {{pictures, chooser("b", "select", "a", ends(5, 2, 0))}, "10 inputs → 7 good → 5 chosen"},
           {{one, {{"kind", "shard"}, {"samples", 1}}}, "1 video → 1 clip → 1 good → 1 in shards"},
           {{one, chooser("b", "select", "another run", ends(0, 1, 0))}, "1 video → 1 clip → 1 good"},
           {{one, curate("c", ends(2, 0, 0), ends(9, 0, 0)), chooser("b", "select", "c", ends(4, 5, 0))},
            "3 videos → 10 clips → 10 good → 5 chosen"}})
    EXPECT_EQ(funnel_line(funnel_of(summaries)), line);
}

// A clip that a person accepted is packed although a select job left it out.
TEST(Funnel, AcceptedClipsMayBeMoreThanTheChosen) {
  auto summaries = kRun;
  summaries.back()["samples"] = 51;
  const auto steps = funnel_of(summaries);
  EXPECT_EQ(steps.back().count, 51);
  EXPECT_TRUE(steps.back().lost.empty());
}

// Clips that `where` has not asked for are not those that a person rejected, and two sets are the whole.
TEST(Funnel, WhatWhereDidNotAskForIsToldApart) {
  const auto pack = [](const char* job, const char* of, int samples, const char* where, int others) {
    json out{{"job", job}, {"kind", "shard"}, {"given", 49}, {"given_by", of}, {"samples", samples}};
    if (*where) out["not_asked_for"] = {{"where", where}, {"clips", others}};
    return out;
  };
  const json train = pack("train", "sets", 40, "set == 'train'", 5),
             val = pack("val", "sets", 5, "set == 'val'", 40), all = pack("all", "sets", 45, "", 0),
             sharp = pack("sharp", "sets", 30, "blur > 9", 15);
  struct Case {
    std::vector<json> shards;
    int count;
    const char* where;
    int others;
  };
  for (const auto& [shards, count, where, others] :
       std::vector<Case>{{{train}, 40, "(set == 'train')", 5},
                         {{train, val}, 45, "(set == 'train') or (set == 'val')", 0},
                         {{train, all}, 45, "", 0},
                         {{all, all}, 45, "", 0},
                         {{val, val}, 5, "(set == 'val')", 40},
                         {{sharp, train}, 45, "(blur > 9) or (set == 'train')", 0}}) {
    auto summaries = kRun;
    summaries.back() = shards.front();
    summaries.insert(summaries.end(), shards.begin() + 1, shards.end());
    json lost = json::array({{{"by", ""}, {"count", 4}}});
    if (others > 0) lost.push_back({{"by", "where"}, {"count", others}});
    json expected{{"name", "in shards"}, {"count", count}, {"lost", std::move(lost)}};
    if (*where) expected["where"] = where;
    EXPECT_EQ(funnel_json(funnel_of(summaries)).back(), expected);
  }
}

TEST(Funnel, ReadsFoldersWhateverIsInThem) {
  const auto folder = std::filesystem::temp_directory_path() / ("kinora-funnel-" + std::to_string(getpid()));
  std::vector<std::filesystem::path> folders;
  for (const json& summary : kRun) {
    folders.push_back(folder / summary["job"].get<std::string>());
    std::filesystem::create_directories(folders.back());
    std::ofstream(folders.back() / "summary.json") << summary;
  }
  EXPECT_EQ(funnel_json(funnel_in(folders)), funnel_json(funnel_of(kRun)));
  std::ofstream(folder / "shards/summary.json") << R"({"kind": "shard", "sam)";
  std::ofstream(folder / "sets/summary.json") << R"({"kind": 7, "clips": -1e300})";
  std::ofstream(folder / "copies/summary.json")
      << R"({"kind": "dedup", "curated": "clips", "clips": {"kept": "x"}})";
  folders.push_back(folder / "not there");
  EXPECT_EQ(funnel_line(funnel_in(folders)), "23 videos → 65 clips → 62 good → 0 chosen");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kinora::core
