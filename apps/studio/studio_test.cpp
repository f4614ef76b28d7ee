// Requests of the page, on folders of finished jobs.
#include <chrono>

#include <gmock/gmock.h>

#include "apps/studio/studio_testing.hpp"
#include "kinora/error.hpp"

namespace kinora::studio {
namespace {

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

TEST_F(StudioTest, AStoredPreviewIsTheClipsPicture) {
  Studio mia = studio();
  const fs::path data = folder_ / "one/data", video = data / "k0.mp4", preview = data / "k0.preview.webp";
  std::ofstream(video) << "video";
  EXPECT_EQ(mia.picture("one/k0").path, video);
  std::ofstream(preview) << "preview";
  EXPECT_EQ(mia.picture("one/k0").path, preview);
  EXPECT_TRUE(mia.picture("one/k0").is_preview);
}

TEST_F(StudioTest, AnActionOnManyClipsSaysWhichDecisionsItOverrules) {
  Studio mia = studio();
  const json ids{"one/k0", "one/k1", "one/k2", "two/k0"};
  (void)mia.edit({{"ids", {"one/k0", "two/k0"}}, {"set", {{"keep", true}}}});
  (void)mia.edit({{"ids", {"one/k1"}}, {"set", {{"keep", false}}}});
  EXPECT_EQ(mia.copies({{"ids", ids}})["accepted"], 2);
  EXPECT_EQ(mia.edit({{"ids", ids}, {"set", {{"keep", false}}}})["overruled"],
            (json{{"accepted", 2}, {"rejected", 0}}));
  EXPECT_EQ(mia.edit({{"ids", ids}, {"set", {{"keep", true}}}})["overruled"],
            (json{{"accepted", 0}, {"rejected", 4}}));
  EXPECT_EQ(mia.edit({{"ids", ids}, {"tag", {"sea"}}})["overruled"],
            (json{{"accepted", 0}, {"rejected", 0}}));
}

TEST_F(StudioTest, TheReviewLeadsFromClipToClipAndToTheRunThatPacks) {
  std::ofstream(folder_ / "one/job.json") << R"({"kind": "curate", "file": "/home/mia/curate.toml"})";
  Studio mia = studio();
  const auto next = [&](const char* from) { return mia.next({{"from", from}})["id"]; };
  EXPECT_EQ(mia.state()["review"], (json{{"all", 6},
                                         {"accepted", 0},
                                         {"rejected", 0},
                                         {"run_file", "/home/mia/curate.toml"},
                                         {"out", folder_.string()}}));
  EXPECT_EQ(next("0"), "one/k0");
  EXPECT_EQ(next("3"), "two/k0") << "k3 has failed";
  (void)mia.edit({{"ids", {"one/k0", "one/k1"}}, {"set", {{"keep", true}}}});
  (void)mia.edit({{"ids", {"two/k0"}}, {"set", {{"keep", false}}}});
  EXPECT_EQ(next("0"), "one/k2");
  EXPECT_EQ(next("7"), "one/k2") << "from the start again";
  EXPECT_EQ(mia.state()["review"]["accepted"], 2);
  EXPECT_EQ(mia.state()["review"]["rejected"], 1);
  (void)mia.edit({{"ids", {"one/k2", "two/k1", "two/k2"}}, {"set", {{"keep", true}}}});
  EXPECT_EQ(next("0"), "");
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
    items << json{{"key", key}, {"end", i % 5 == 0 ? "filtered" : "kept"}, {"parent", "f"}, {"facts", facts}}
          << "\n";
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
    const json edit = json::parse(line), of{{"sha256", "ab"},
                                            {"first_frame", 10 * (n % kClips)},
                                            {"end_frame", 10 * (n % kClips) + 10}};
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
  fs::last_write_time(folder_ / "one/items.jsonl",
                      fs::file_time_type::clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(mia.edit({{"ids", {"one/old"}}, {"tag", {"sea"}}})["changed"], 1);
  EXPECT_EQ(decision(mia, "one/new"), "") << "two clips have the footage, so the edit is of neither";
}

std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_NOT_FOUND);
    return e.what();
  }
  return "not refused";
}

TEST_F(StudioTest, WhileAJobBeginsAnewItsClipsAreAwaited) {
  Studio mia = studio();
  (void)mia.edit({{"ids", {"one/k0"}}, {"set", {{"keep", false}}}});
  const fs::path one = folder_ / "one", before = folder_ / ".one.before";
  fs::rename(one, before);
  fs::create_directories(one);
  fs::copy_file(before / "edits.jsonl", one / "edits.jsonl");
  std::ofstream(one / "job.json") << R"({"kind": "curate"})";
  std::ofstream(one / "record.db").close();  // SQLite makes the file before its tables
  EXPECT_THAT(refused([&] {
                (void)mia.clip({{"id", "one/k1"}});
              }),
              testing::HasSubstr("makes its clips anew"));
  EXPECT_THAT(refused([&] {
                (void)mia.shots({{"id", "one/k1"}});
              }),
              testing::HasSubstr("makes its clips anew"));
  EXPECT_EQ(mia.state()["anew"], json::array({"one"}));
  EXPECT_EQ(mia.clips({})["total"], 4);
  const json saved = mia.edit({{"ids", {"one/k1"}}, {"set", {{"keep", true}}}}), undone = mia.undo();
  EXPECT_EQ(saved["gone"], 1);
  EXPECT_EQ(saved["at_work"], true);
  EXPECT_EQ(undone["keys"], json::array({"k0"}));
  EXPECT_EQ(undone["at_work"], true);
  EXPECT_TRUE(undone["clip"].is_null());
  fs::remove_all(one);
  fs::rename(before, one);
  EXPECT_EQ(mia.edit({{"ids", {"one/k1"}}, {"set", {{"keep", true}}}})["at_work"], false);
  EXPECT_EQ(mia.state()["anew"], json::array());
}

TEST_F(StudioTest, AFolderThatIsGoneIsNamed) {
  Studio mia = studio();
  const fs::path one = folder_ / "one", moved = folder_ / "moved";
  fs::rename(one, moved);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(refused([&] { (void)mia.state(); }),
                testing::HasSubstr((fs::canonical(folder_) / "one").string() + ": the folder is gone"));
  EXPECT_THAT(refused([&] {
                (void)mia.edit({{"ids", {"two/k0"}}, {"tag", {"sea"}}});
              }),
              testing::HasSubstr("the folder is gone"));
  fs::rename(moved, one);
  EXPECT_EQ(mia.clips({})["total"], 8);
}

TEST_F(StudioTest, ACopySaysWhyAndIsCountedWhereItIsHidden) {
  fs::remove_all(folder_ / "two");
  fs::create_directories(folder_ / "copies");
  std::ofstream(folder_ / "copies/summary.json") << R"({"curated": "one"})";
  const std::string why = "copy of k1: cosine 0.9987, motion 0.97 alike";
  std::ofstream(folder_ / "copies/decisions.jsonl")
      << json{{"key", "k0"}, {"end", "filtered"}, {"rule", "dedup.semantic"}, {"of", "k1"}, {"reason", why}}
      << "\n";
  std::ofstream(folder_ / "one/data/k0.mp4") << "12345";
  Studio mia = studio();
  const json copy = mia.clip({{"id", "one/k0"}}), original = mia.clip({{"id", "one/k1"}});
  EXPECT_EQ(copy["copy_why"], why);
  EXPECT_EQ(copy["bytes"], 5);
  EXPECT_FALSE(original.contains("copy_why") || original.contains("bytes"));
  const auto counts = [&](Parameters query) {
    const json found = mia.clips(query);
    return std::pair(found["total"].get<int>(), found["hidden"].get<int>());
  };
  EXPECT_EQ(counts({{"where", "key == 'k0'"}}), std::pair(0, 1));
  EXPECT_EQ(counts({{"where", "key == 'k0'"}, {"copies", "1"}}), std::pair(1, 0));
  EXPECT_EQ(counts({{"where", "key == 'none'"}}), std::pair(0, 0));
  EXPECT_EQ(counts({}), std::pair(3, 0));
}

TEST_F(StudioTest, OfManyClipsTheOnesThatCannotBePackedAreNotAccepted) {
  Studio mia = studio();
  const json saved = mia.edit({{"ids", {"one/k2", "one/k3"}}, {"set", {{"keep", true}}}});
  EXPECT_EQ(saved["changed"], 1);
  EXPECT_EQ(saved["unstorable"], 1);
  EXPECT_EQ(decision(mia, "one/k3"), "");
}

TEST_F(StudioTest, AStoredClipIsTrimmedToFramesThatItHas) {
  std::ofstream(folder_ / "one/items.jsonl")
      << json{{"key", "k0"}, {"end", "kept"}, {"parent", "f"}, {"facts", {{"frames", 24}, {"fps", 12.0}}}}
      << "\n"
      << json{{"key", "k1"}, {"end", "kept"}, {"parent", "f"}, {"facts", {{"frames", 24}}}} << "\n";
  std::ofstream(folder_ / "one/data/k0.mp4") << "12345";
  Studio mia = studio();
  const auto trim = [&](const char* id, int first, int end) {
    return mia.edit({{"id", id}, {"set", {{"trim", {first, end}}}}});
  };
  const json trimmed = trim("one/k0", 6, 24)["clip"];
  EXPECT_EQ(trimmed["trim"], json({6, 24}));
  EXPECT_EQ(trimmed["trimmed_s"], 1.5);
  EXPECT_THROW((void)trim("one/k0", 6, 25), Error) << "it has 24 frames";
  EXPECT_THROW((void)trim("one/k0", 6, 6), Error) << "no frame is left";
  EXPECT_THROW((void)trim("one/k1", 6, 12), Error) << "it is not stored";
  EXPECT_FALSE(mia.undo()["clip"].contains("trim"));
  EXPECT_EQ(mia.redo()["clip"]["trim"], json({6, 24}));
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
      << R"({"kind": "curate", "components": [{"slot": "stages", "id": "stage/filter.blur", )"
         R"("options": {"mode": "on", "at_least": 3}}]})";
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
                                                    {"select", ""},
                                                    {"stage", "filter.blur"},
                                                    {"option", "at_least"},
                                                    {"is_most", false},
                                                    {"is_strict", false},
                                                    {"value", 3.0}}})));
  const json sorted = mia.clips({{"sort", "scores.filter.blur"}, {"count", "1"}});
  EXPECT_EQ(sorted["shows"], "scores.filter.blur");
  EXPECT_EQ(sorted["rows"][0]["value"], 1);
  EXPECT_EQ(sorted["rows"][0]["bound"], (json{{"at_least", 3.0}}));
  EXPECT_EQ(mia.clips({})["shows"], "");
}

TEST_F(StudioTest, StagesStateTitlesAndUnitsOfScores) {
  EXPECT_EQ(studio().state()["scores"], json::object());
  std::ofstream(folder_ / "one/job.json")
      << R"({"kind": "curate", "scores": {"glow": {"title": "Glow", "unit": "cd"}, "odd": {"title": 3}, "odder": 4}})";
  EXPECT_EQ(studio().state()["scores"], (json{{"glow", {{"title", "Glow"}, {"unit", "cd"}}},
                                              {"odd", {{"title", ""}, {"unit", ""}}},
                                              {"odder", {{"title", ""}, {"unit", ""}}}}));
}

}  // namespace
}  // namespace kinora::studio
