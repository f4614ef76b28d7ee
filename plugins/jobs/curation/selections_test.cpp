#include "plugins/jobs/curation/selections.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::Pair;

class SelectionsTest : public testing::Test {
 protected:
  SelectionsTest() {
    std::string name = (fs::temp_directory_path() / "kinora-selections-XXXXXX").string();
    run_ = mkdtemp(name.data());
    fs::create_directories(run_ / "clips/data");
    std::ofstream(run_ / "clips/job.json") << R"({"kind": "curate"})";
  }
  ~SelectionsTest() override { fs::remove_all(run_); }

  // lines: of decisions.jsonl. left_out_before: how many of them the job has taken over.
  void job(const std::string& name, const std::string& kind, int left_out_before,
           const std::vector<std::string>& lines) {
    fs::create_directories(run_ / name);
    std::ofstream(run_ / name / "job.json") << json{{"kind", kind}, {"options", {{"where", "x > 1"}}}};
    std::ofstream(run_ / name / "summary.json")
        << json{{"curated", "clips"}, {"left_out_before", left_out_before}};
    std::ofstream out(run_ / name / "decisions.jsonl");
    for (const auto& line : lines) out << line << "\n";
  }

  fs::path run_;
  const EditHistory::Subject any_ = [](const std::string&) { return json::object(); };
};

const std::string kCopy = R"({"key":"a","end":"filtered","rule":"dedup.semantic","of":"b"})";
const std::string kSmall = R"({"key":"b","end":"filtered","final":true,"rule":"x > 1","user":{"n":"1"}})";
const std::string kCounted = R"({"key":"c","end":"filtered","final":true,"rule":"count","set":"train"})";

TEST_F(SelectionsTest, AClipIsLeftOutByTheJobThatRemovedIt) {
  job("copies", "dedup", 0, {kCopy, R"({"key":"b","end":"kept"})"});
  job("z-first", "select", 1,
      {kCopy, kSmall, R"({"key":"c","end":"kept","set":"train"})",
       R"({"key":"d","end":"kept","set":"val"})"});
  job("a-second", "select", 2,
      {kCopy, kSmall, kCounted, R"({"key":"d","end":"kept","set":"val","user":{"n":"4"}})"});
  const auto all = selections_of(run_ / "clips", any_);
  ASSERT_EQ(all.size(), 2U) << "the dedup job is none";
  EXPECT_EQ(all[0].job, "z-first");
  EXPECT_EQ(all[0].where, "x > 1");
  EXPECT_THAT(all[0].left_out, ElementsAre(Pair("b", "x > 1")));
  EXPECT_FALSE(all[0].is_last);
  EXPECT_THAT(all[1].left_out, ElementsAre(Pair("c", "count")));
  EXPECT_TRUE(all[1].is_last);
  const auto added = added_beside(run_ / "clips");
  EXPECT_EQ(added.at("b"), (json{{"user", {{"n", "1"}}}}));
  EXPECT_EQ(added.at("c"), (json{{"set", "train"}}));
  EXPECT_EQ(added.at("d"), (json{{"set", "val"}, {"user", {{"n", "4"}}}}));
  EXPECT_FALSE(added.contains("a"));
}

TEST_F(SelectionsTest, AJobBehindADedupJobLeftOutNothingOfTheOneBeforeIt) {
  job("chosen", "select", 0, {kSmall, R"({"key":"a","end":"kept"})", R"({"key":"c","end":"kept"})"});
  job("sets", "select", 2, {kCopy, kSmall, R"({"key":"c","end":"kept","set":"train"})"});
  job("apart", "select", 1, {kCopy, kSmall, R"({"key":"c","end":"kept"})"});
  const auto all = selections_of(run_ / "clips", any_);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].job, "chosen");
  EXPECT_THAT(all[0].left_out, ElementsAre(Pair("b", "x > 1")));
  EXPECT_EQ(all[1].job, "apart") << "it has read the dedup job alone, and removed b itself";
  EXPECT_THAT(all[1].left_out, ElementsAre(Pair("b", "x > 1")));
  EXPECT_EQ(all[2].job, "sets");
  EXPECT_TRUE(all[2].left_out.empty());
  EXPECT_FALSE(all[2].is_last);
}

TEST_F(SelectionsTest, AJobThatRemovedNothingIsNotTheLast) {
  job("joined", "select", 0, {R"({"key":"b","end":"kept","user":{"n":"1"}})", R"({"key":"c","end":"kept"})"});
  job("small", "select", 0, {kSmall, R"({"key":"c","end":"kept"})"});
  const auto all = selections_of(run_ / "clips", any_);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(all[0].is_last) << "it chooses nothing";
  EXPECT_TRUE(all[1].is_last);
}

TEST_F(SelectionsTest, DecisionsAboutOtherFootageAndThoseThatCannotBeReadDoNotCount) {
  job("good", "select", 0,
      {R"({"key":"b","clip":{"sha256":"ab"},"end":"filtered","final":true,"rule":"x > 1"})", kCounted});
  job("torn", "select", 0, {R"({"key":"b","end":)"});
  const auto all = selections_of(run_ / "clips", [](const std::string& key) {
    return key == "b" ? json{{"sha256", "cd"}} : json::object();
  });
  ASSERT_EQ(all.size(), 1U);
  EXPECT_THAT(all[0].left_out, ElementsAre(Pair("c", "count")));
}

TEST_F(SelectionsTest, TheFolderOfASelectJobStandsForItsRun) {
  job("good", "select", 0, {});
  EXPECT_EQ(folder_with_clips(run_ / "good"), fs::canonical(run_));
  EXPECT_EQ(folder_with_clips(run_ / "clips"), run_ / "clips");
  EXPECT_EQ(folder_with_clips(run_ / "none"), run_ / "none");
}

}  // namespace
}  // namespace kinora::core
