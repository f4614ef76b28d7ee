// What the page requests, on folders of finished jobs.
#include "apps/studio/studio.hpp"

#include <chrono>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class StudioTest : public testing::Test {
 protected:
  StudioTest() {
    std::string name = (fs::temp_directory_path() / "kinora-studio-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (const char* job : {"one", "two"}) {
      fs::create_directories(folder_ / job / "data");
      std::ofstream(folder_ / job / "job.json") << R"({"kind": "curate"})";
      std::ofstream(folder_ / job / "summary.json") << "{}";
      std::ofstream items(folder_ / job / "items.jsonl");
      for (int i = 0; i < 4; ++i)
        items << json{{"key", "k" + std::to_string(i)}, {"end", i == 3 ? "failed" : "kept"}, {"parent", "f"}} << "\n";
    }
  }
  ~StudioTest() override { fs::remove_all(folder_); }
  Studio studio(const char* author = "mia") {
    return Studio(folder_, author, [](const auto&, const auto&) { return std::vector<std::vector<float>>(); });
  }
  static std::string decision(Studio& studio, const char* id) {
    return studio.clip({{"id", id}})["decision"];
  }

  fs::path folder_;
};

TEST_F(StudioTest, AStepOfSeveralJobsIsUndoneAsOne) {
  Studio mia = studio();
  const json ids{"one/k0", "two/k1", "two/k2", "one/none", "one/k0"};
  const json saved = mia.edit({{"ids", ids}, {"set", {{"keep", false}, {"reason", " logo "}}}});
  EXPECT_EQ(saved["changed"], 3);
  EXPECT_EQ(saved["gone"], 1);
  for (const char* id : {"one/k0", "two/k1", "two/k2"}) EXPECT_EQ(decision(mia, id), "rejected") << id;
  EXPECT_EQ(mia.state()["reasons"], json::array({"logo"}));
  EXPECT_EQ(mia.undo()["changed"], 3);
  for (const char* id : {"one/k0", "two/k1", "two/k2"}) EXPECT_EQ(decision(mia, id), "") << id;
  EXPECT_THROW((void)mia.undo(), Error);
  EXPECT_EQ(mia.redo()["changed"], 3);
  EXPECT_EQ(decision(mia, "two/k2"), "rejected");
}

// Read calls of this process so far.
int64_t reads() {
  std::ifstream in("/proc/self/io");
  std::string name;
  int64_t value = 0;
  while (in >> name >> value && name != "syscr:") {
  }
  return value;
}

TEST_F(StudioTest, AnActionOnManyClipsIsOneStepAndReadsNoFileOfAClip) {
  constexpr int kClips = 500;
  std::ofstream items(folder_ / "one/items.jsonl");
  for (int i = 0; i < kClips; ++i) {
    const std::string key = "k" + std::to_string(i);
    const json facts{{"sha256", "ab"}, {"first_frame", 10 * i}, {"end_frame", 10 * i + 10}};
    items << json{{"key", key}, {"end", i % 5 == 0 ? "filtered" : "kept"}, {"parent", "f"}, {"facts", facts}} << "\n";
    if (i % 5 != 0) std::ofstream(folder_ / "one/data" / (key + ".json")) << facts;
  }
  items.close();
  if (reads() == 0) GTEST_SKIP() << "/proc/self/io does not count";
  Studio mia = studio();
  json ids = json::array();
  for (int i = 0; i < kClips; ++i) ids.push_back("one/k" + std::to_string(i));
  const int64_t before = reads();
  EXPECT_EQ(mia.copies({{"ids", ids}})["copies"], 0);
  EXPECT_EQ(mia.edit({{"ids", ids}, {"set", {{"keep", false}, {"reason", "logo"}}}})["changed"], kClips);
  EXPECT_EQ(mia.undo()["changed"], kClips);
  EXPECT_EQ(mia.redo()["changed"], kClips);
  EXPECT_EQ(studio("tom").state()["counts"]["decisions"]["rejected"], kClips);
  EXPECT_LT(reads() - before, kClips);
  std::ifstream lines(folder_ / "one/edits.jsonl");
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    const json edit = json::parse(line), of{{"sha256", "ab"}, {"first_frame", 10 * (n % kClips)}, {"end_frame", 10 * (n % kClips) + 10}};
    ASSERT_EQ(edit["of"], of) << line;
    ASSERT_EQ(edit.value("more", false), (n + 1) % kClips != 0) << "a step ends with its last clip";
  }
  EXPECT_EQ(n, 3 * kClips);
}

TEST_F(StudioTest, AnEditFollowsItsFootageToTheClipsNewKey) {
  const json of{{"sha256", "ab"}, {"first_frame", 0}, {"end_frame", 10}}, other{{"sha256", "cd"}};
  const auto write = [&](const std::vector<std::pair<const char*, json>>& kept) {
    std::ofstream items(folder_ / "one/items.jsonl");
    for (const auto& [key, facts] : kept)
      items << json{{"key", key}, {"end", "kept"}, {"parent", "f"}, {"facts", facts}} << "\n";
  };
  write({{"old", of}});
  {
    Studio mia = studio();
    (void)mia.edit({{"ids", {"one/old"}}, {"set", {{"keep", false}}}});
  }
  write({{"old", other}, {"new", of}});
  Studio mia = studio();
  EXPECT_EQ(decision(mia, "one/old"), "");
  EXPECT_EQ(decision(mia, "one/new"), "rejected");
  write({{"old", other}, {"new", of}, {"again", of}});
  fs::last_write_time(folder_ / "one/items.jsonl", fs::file_time_type::clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(mia.edit({{"ids", {"one/old"}}, {"tag", {"sea"}}})["changed"], 1);
  EXPECT_EQ(decision(mia, "one/new"), "") << "two clips have the footage, so the edit is of neither";
}

TEST_F(StudioTest, OfManyClipsTheOnesThatCannotBePackedAreNotAccepted) {
  Studio mia = studio();
  const json saved = mia.edit({{"ids", {"one/k2", "one/k3"}}, {"set", {{"keep", true}}}});
  EXPECT_EQ(saved["changed"], 1);
  EXPECT_EQ(saved["unstorable"], 1);
  EXPECT_EQ(decision(mia, "one/k3"), "");
}

TEST_F(StudioTest, ATagIsToggledForAllClipsTogether) {
  Studio mia = studio();
  const json toggle{{"ids", {"one/k0", "two/k0"}}, {"toggle", {"sea"}}};
  (void)mia.edit({{"id", "one/k0"}, {"tag", {"calm", "sea"}}});
  EXPECT_EQ(mia.edit(toggle)["changed"], 1) << "not all had it";
  EXPECT_EQ(mia.state()["tags"], json::parse(R"([["calm", 1], ["sea", 2]])"));
  EXPECT_EQ(mia.edit(toggle)["changed"], 2);
  EXPECT_EQ(mia.state()["tags"], json::parse(R"([["calm", 1]])"));
}

TEST_F(StudioTest, AViewStaysAsItWasForThoseWhoAskForItsVersion) {
  Studio mia = studio();
  const Parameters open{{"decision", "open"}};
  const json before = mia.ids(open);
  EXPECT_EQ(before["ids"].size(), 8U);
  (void)mia.edit({{"id", "one/k0"}, {"set", {{"keep", false}}}});
  Parameters again = open;
  again.emplace("at", before["version"].dump());
  again.emplace("from", "1");
  again.emplace("count", "2");
  EXPECT_EQ(mia.ids(again), (json{{"version", before["version"]}, {"ids", {"one/k1", "one/k2"}}}));
  EXPECT_EQ(mia.ids(open)["ids"].size(), 7U);
  EXPECT_NE(mia.ids(open)["version"], before["version"]);
}

TEST_F(StudioTest, AnotherStudioSeesTheStepAndIsToldOfConflicts) {
  Studio mia = studio(), tom = studio("tom");
  const json seen = tom.state()["seen"];
  (void)mia.edit({{"ids", {"one/k0", "two/k1"}}, {"set", {{"keep", false}, {"reason", "logo"}}}});
  const json accept{{"ids", {"one/k0", "one/k1"}}, {"set", {{"keep", true}, {"reason", ""}}}, {"seen", seen}};
  const json saved = tom.edit(accept);
  EXPECT_EQ(saved["changed"], 1);
  ASSERT_EQ(saved["conflicts"].size(), 1U);
  EXPECT_EQ(saved["conflicts"][0]["key"], "k0");
  EXPECT_EQ(saved["conflicts"][0]["author"], "mia");
  EXPECT_EQ(saved["conflicts"][0]["set"], (json{{"keep", false}, {"reason", "logo"}}));
  EXPECT_EQ(decision(tom, "one/k0"), "rejected");
}

TEST_F(StudioTest, SavedViewsAreSharedAndTheLastOfANameCounts) {
  Studio mia = studio(), tom = studio("tom");
  (void)mia.save_view({{"name", "open"}, {"view", "decision=open"}, {"where", ""}});
  (void)tom.save_view({{"name", "sea"}, {"view", "tag=sea"}, {"where", "where = \"tags contains 'sea'\""}});
  std::ofstream(folder_ / "one/views.jsonl", std::ios::app) << R"({"name": "torn)";
  (void)mia.save_view({{"name", "open"}, {"view", "decision=rejected"}});
  EXPECT_EQ(tom.state()["views"],
            (json{{{"name", "open"}, {"view", "decision=rejected"}, {"where", ""}},
                  {{"name", "sea"}, {"view", "tag=sea"}, {"where", "where = \"tags contains 'sea'\""}}}));
  EXPECT_EQ(tom.save_view({{"name", "open"}, {"view", nullptr}}).size(), 1U);
  EXPECT_THROW((void)tom.save_view({{"name", " "}, {"view", ""}}), Error);
}

TEST_F(StudioTest, AMovedBoundSaysWhatItChangesAndARowHasTheNumberOfItsOrder) {
  std::ofstream(folder_ / "one/job.json")
      << R"({"kind": "curate", "components": [{"slot": "stages", "id": "stage/filter.blur", "options": {"mode": "on", "at_least": 3}}]})";
  std::ofstream items(folder_ / "one/items.jsonl");
  for (int n = 1; n <= 6; ++n) {
    json item{{"key", "b" + std::to_string(n)},
              {"end", "kept"},
              {"parent", "f"},
              {"facts", {{"scores", {{"filter.blur", n}}}}}};
    if (n < 3) {
      item.update({{"end", "filtered"}, {"stage", "filter.blur"}, {"reason", "filter.blur"}, {"score", n}});
      item["facts"]["bounds"]["filter.blur"] = {{"at_least", 3}};
    }
    items << item << "\n";
  }
  items.close();
  Studio mia = studio();
  const json at_5 = mia.bound({{"field", "scores.filter.blur"}, {"side", "least"}, {"value", "5"}});
  EXPECT_EQ(at_5, (json{{"gone", 2}, {"back", 0}, {"where", "scores.filter.blur >= 5"}}));
  EXPECT_EQ(mia.bound({{"field", "scores.filter.blur"}, {"side", "least"}, {"value", "2"}})["back"], 1);
  EXPECT_THROW((void)mia.bound({{"field", "scores.filter.blur"}, {"side", "least"}, {"value", "low"}}),
               Error);
  const json histograms = mia.histograms({});
  ASSERT_EQ(histograms.size(), 1U);
  EXPECT_EQ(histograms[0]["bounds"], (json::array({{{"job", "one"},
                                                    {"stage", "filter.blur"},
                                                    {"option", "at_least"},
                                                    {"is_most", false},
                                                    {"value", 3.0}}})));
  const json sorted = mia.clips({{"sort", "scores.filter.blur"}, {"count", "1"}});
  EXPECT_EQ(sorted["shows"], "scores.filter.blur");
  EXPECT_EQ(sorted["rows"][0]["value"], 1);
  EXPECT_EQ(sorted["rows"][0]["bound"], (json{{"at_least", 3.0}}));
  EXPECT_EQ(mia.clips({})["shows"], "");
}

}  // namespace
}  // namespace kinora::studio
