#include "apps/studio/edit_journal.hpp"

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class EditJournalTest : public testing::Test {
 protected:
  EditJournalTest() {
    std::string name = (fs::temp_directory_path() / "kinora-studio-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    file_ = folder_ / "edits.jsonl";
  }
  ~EditJournalTest() override { fs::remove_all(folder_); }

  std::string text() const {
    std::ifstream in(file_, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  // The view of a reader that takes the last value of each field and knows nothing else.
  json last_values(const std::string& key) const {
    json out = json::object();
    std::istringstream in(text());
    for (std::string line; std::getline(in, line);)
      if (const json value = json::parse(line); value["key"] == key) out.update(value["set"]);
    return out;
  }

  fs::path folder_, file_;
  const Change own_{"its own", "", true};
  const EditJournal::Own own_of_ = [this](const std::string&) { return own_; };
};

TEST_F(EditJournalTest, AnotherStudioSeesWhatIsSavedAndNothingIsSavedTwice) {
  EditJournal one(file_, "mia"), two(file_, "tom");
  ASSERT_TRUE(one.change("a", {"new", std::nullopt, std::nullopt}, own_));
  ASSERT_TRUE(one.change("a", {"new", std::nullopt, std::nullopt}, own_));
  ASSERT_TRUE(one.change("b", {"its own", std::nullopt, std::nullopt}, own_));
  EXPECT_EQ(text().find('\n'), text().size() - 1) << text();
  EXPECT_THAT(text(), testing::ContainsRegex("20[0-9]+-[0-9]+-[0-9]+T[0-9:]+\\.[0-9]+Z"));
  EXPECT_TRUE(*two.refresh());
  EXPECT_FALSE(*two.refresh());
  EXPECT_EQ(*two.history().now("a").caption, "new");
}

TEST_F(EditJournalTest, ALastLineThatWasTypedByHandIsKept) {
  const std::string by_hand = R"({"key": "b", "set": {"caption": "by hand"}})";
  std::ofstream(file_) << by_hand;
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change("a", {"new", std::nullopt, std::nullopt}, own_));
  EXPECT_EQ(*journal.history().now("b").caption, "by hand");
  EXPECT_TRUE(text().starts_with(by_hand + "\n{")) << text();
  std::ofstream(file_, std::ios::app) << R"({"key": "c", "set": {"capt)";
  ASSERT_TRUE(journal.change("b", {"newer", std::nullopt, std::nullopt}, own_));
  EXPECT_EQ(last_values("b"), json({{"caption", "newer"}})) << "half a line does not count";
  EXPECT_EQ(last_values("c"), json::object());
}

TEST_F(EditJournalTest, EveryLineSaysWhichFootageItIsOf) {
  const json of{{"sha256", "ab"}, {"first_frame", 0}, {"end_frame", 48}};
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change("a", {"one", std::nullopt, std::nullopt}, own_, of));
  ASSERT_TRUE(journal.undo(own_of_));
  ASSERT_TRUE(EditJournal(file_, "mia").redo());
  std::istringstream lines(text());
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) EXPECT_EQ(json::parse(line)["of"], of) << line;
  EXPECT_EQ(n, 3);
}

TEST_F(EditJournalTest, UndoIsRightForAReaderOfLastValues) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change("a", {"one", std::nullopt, std::nullopt}, own_));
  ASSERT_TRUE(journal.change("a", {"two", "dark", false}, own_));
  EXPECT_EQ(last_values("a"), (json{{"caption", "two"}, {"keep", false}, {"reason", "dark"}}));
  EXPECT_EQ(*journal.undo(own_of_), "a");
  EXPECT_EQ(last_values("a"), (json{{"caption", "one"}, {"keep", nullptr}, {"reason", ""}}))
      << "no decision existed before";
  EXPECT_EQ(journal.history().now("a"), (Change{"one", std::nullopt, std::nullopt}));
  EXPECT_EQ(*journal.undo(own_of_), "a");
  EXPECT_EQ(last_values("a")["caption"], "its own");
  EXPECT_EQ(journal.undo(own_of_).failure().code, KINORA_ERROR_NOT_FOUND);
  EXPECT_TRUE(journal.redo());
  EXPECT_TRUE(journal.redo());
  EXPECT_EQ(last_values("a"), (json{{"caption", "two"}, {"keep", false}, {"reason", "dark"}}));
  EXPECT_TRUE(journal.change("a", {std::nullopt, std::nullopt, true}, own_));
  EXPECT_TRUE(journal.undo(own_of_));
  EXPECT_EQ(last_values("a")["keep"], false) << "the earlier decision";
  // A restart gives the same.
  EditJournal later(file_, "mia");
  ASSERT_TRUE(later.refresh());
  EXPECT_EQ(later.history().now("a"), journal.history().now("a"));
  EXPECT_TRUE(later.undo(own_of_));
}

TEST_F(EditJournalTest, WhatAnotherAuthorChangedSinceIsNotUndone) {
  EditJournal mia(file_, "mia"), tom(file_, "tom");
  ASSERT_TRUE(mia.change("a", {"mia's", std::nullopt, std::nullopt}, own_));
  ASSERT_TRUE(tom.change("a", {"tom's", std::nullopt, std::nullopt}, own_));
  const auto undone = mia.undo(own_of_);
  ASSERT_FALSE(undone);
  EXPECT_THAT(undone.failure().message, testing::HasSubstr("another author"));
  EXPECT_EQ(last_values("a")["caption"], "tom's");
}

TEST_F(EditJournalTest, ATornLastLineIsIgnoredAndRemovedByTheNextEdit) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change("a", {"one", std::nullopt, std::nullopt}, own_));
  std::ofstream(file_, std::ios::app) << R"({"key":"a","set":{"caption":"to)";
  EditJournal other(file_, "tom");
  ASSERT_TRUE(other.refresh());
  EXPECT_EQ(*other.history().now("a").caption, "one");
  ASSERT_TRUE(other.change("b", {"two", std::nullopt, std::nullopt}, own_));
  std::istringstream in(text());
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) EXPECT_TRUE(json::accept(line)) << line;
  EXPECT_EQ(lines, 2);
}

TEST_F(EditJournalTest, StudiosAtOnceLoseNoEdit) {
  constexpr int kWriters = 4, kEach = 25;
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w)
    threads.emplace_back([&, w] {
      EditJournal journal(file_, "author" + std::to_string(w));
      for (int i = 0; i < kEach; ++i)
        EXPECT_TRUE(journal.change("k" + std::to_string(w) + "-" + std::to_string(i),
                                   {"x", std::nullopt, std::nullopt}, own_));
    });
  for (auto& thread : threads) thread.join();
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.refresh());
  EXPECT_EQ(journal.history().all().size(), size_t{kWriters * kEach});
  for (int w = 0; w < kWriters; ++w)
    EXPECT_EQ(journal.history().of("k" + std::to_string(w) + "-24").size(), 1U);
}

TEST_F(EditJournalTest, AKilledWriterLeavesWholeLines) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      EditJournal journal(file_, "mia");
      for (int i = 0;; ++i) (void)journal.change("a", {std::to_string(i), std::nullopt, std::nullopt}, own_);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 17 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EditJournal journal(file_, "tom");
    ASSERT_TRUE(journal.refresh());
    ASSERT_TRUE(journal.change("b", {"after " + std::to_string(round), std::nullopt, std::nullopt}, own_));
    std::istringstream in(text());
    for (std::string line; std::getline(in, line);) EXPECT_TRUE(core::parse_edit(line)) << line;
  }
}

TEST_F(EditJournalTest, WithoutTheRightToWriteItSaysSoBeforeAnyEdit) {
  const auto refusal_of_nobody = [&] {  // because root may write anywhere
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const bool is_other = getuid() != 0 || setuid(65534) == 0;
      const std::string why = is_other ? EditJournal(file_, "mia").refusal() : "setuid failed";
      (void)!write(ends[1], why.data(), why.size());
      _exit(0);
    }
    close(ends[1]);
    char said[1000];
    const ssize_t n = read(ends[0], said, sizeof said);
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return std::string(said, n > 0 ? static_cast<size_t>(n) : 0);
  };
  EXPECT_EQ(EditJournal(file_, "mia").refusal(), "");
  fs::permissions(folder_, fs::perms(0777));
  EXPECT_EQ(refusal_of_nobody(), "");
  fs::permissions(folder_, fs::perms(0555));
  EXPECT_THAT(refusal_of_nobody(),
              testing::HasSubstr(folder_.string() + ": Permission denied; edits cannot be saved"));
  fs::permissions(folder_, fs::perms(0777));
  std::ofstream(file_) << "";
  fs::permissions(file_, fs::perms(0444));
  EXPECT_THAT(refusal_of_nobody(), testing::HasSubstr("edits.jsonl: Permission denied"));
}

TEST_F(EditJournalTest, AFolderThatCannotBeWrittenIsNamed) {
  EditJournal journal(folder_ / "gone" / "edits.jsonl", "mia");
  const auto saved = journal.change("a", {"x", std::nullopt, std::nullopt}, own_);
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.failure().message, testing::HasSubstr("nothing was saved"));
  EXPECT_FALSE(*journal.refresh());
}

}  // namespace
}  // namespace kinora::studio
