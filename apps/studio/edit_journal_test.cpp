#include "apps/studio/edit_journal.hpp"

#include <cerrno>
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

  using Keys = std::vector<std::string>;
  static Keys keys(const core::Result<Saved>& saved) {
    return saved ? saved->keys : Keys{saved.failure().message};
  }

  fs::path folder_, file_;
  const Change own_{"its own", "", true, core::Tags()};
  const EditJournal::Own own_of_ = [this](const std::string&) { return own_; };
};

TEST_F(EditJournalTest, AnotherStudioSeesWhatIsSavedAndNothingIsSavedTwice) {
  EditJournal one(file_, "mia"), two(file_, "tom");
  ASSERT_TRUE(one.change({{"a", own_}}, {{"new", std::nullopt, std::nullopt}}));
  ASSERT_TRUE(one.change({{"a", own_}}, {{"new", std::nullopt, std::nullopt}}));
  ASSERT_TRUE(one.change({{"b", own_}}, {{"its own", std::nullopt, std::nullopt}}));
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
  ASSERT_TRUE(journal.change({{"a", own_}}, {{"new", std::nullopt, std::nullopt}}));
  EXPECT_EQ(*journal.history().now("b").caption, "by hand");
  EXPECT_TRUE(text().starts_with(by_hand + "\n{")) << text();
  std::ofstream(file_, std::ios::app) << R"({"key": "c", "set": {"capt)";
  ASSERT_TRUE(journal.change({{"b", own_}}, {{"newer", std::nullopt, std::nullopt}}));
  EXPECT_EQ(last_values("b"), json({{"caption", "newer"}})) << "half a line does not count";
  EXPECT_EQ(last_values("c"), json::object());
}

TEST_F(EditJournalTest, EveryLineSaysWhichFootageItIsOf) {
  const json of{{"sha256", "ab"}, {"first_frame", 0}, {"end_frame", 48}};
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change({{"a", own_, of}}, {{"one", std::nullopt, std::nullopt}}));
  ASSERT_TRUE(journal.undo(own_of_));
  ASSERT_TRUE(EditJournal(file_, "mia").redo());
  std::istringstream lines(text());
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) EXPECT_EQ(json::parse(line)["of"], of) << line;
  EXPECT_EQ(n, 3);
}

TEST_F(EditJournalTest, UndoOfTheFirstTrimIsTheWholeClip) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change({{"a", own_}}, {{{}, {}, {}, {}, core::Trim{3, 20}}}));
  ASSERT_TRUE(journal.change({{"a", own_}}, {{{}, {}, {}, {}, core::Trim{5, 20}}}));
  EXPECT_EQ(last_values("a"), (json{{"trim", {5, 20}}}));
  EXPECT_EQ(keys(journal.undo(own_of_)), Keys{"a"});
  EXPECT_EQ(journal.history().now("a").trim, (core::Trim{3, 20}));
  EXPECT_EQ(keys(journal.undo(own_of_)), Keys{"a"});
  EXPECT_EQ(last_values("a"), (json{{"trim", nullptr}}));
  EditJournal later(file_, "mia");
  EXPECT_TRUE(*later.refresh());
  EXPECT_FALSE(later.history().now("a").trim);
  EXPECT_TRUE(later.redo());
  EXPECT_EQ(later.history().now("a").trim, (core::Trim{3, 20}));
}

TEST_F(EditJournalTest, UndoIsRightForAReaderOfLastValues) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change({{"a", own_}}, {{"one", std::nullopt, std::nullopt}}));
  ASSERT_TRUE(journal.change({{"a", own_}}, {{"two", "dark", false}}));
  EXPECT_EQ(last_values("a"), (json{{"caption", "two"}, {"keep", false}, {"reason", "dark"}}));
  EXPECT_EQ(keys(journal.undo(own_of_)), Keys{"a"});
  EXPECT_EQ(last_values("a"), (json{{"caption", "one"}, {"keep", nullptr}, {"reason", ""}}))
      << "no decision existed before";
  EXPECT_EQ(journal.history().now("a"), (Change{"one", std::nullopt, std::nullopt}));
  EXPECT_EQ(keys(journal.undo(own_of_)), Keys{"a"});
  EXPECT_EQ(last_values("a")["caption"], "its own");
  EXPECT_EQ(journal.undo(own_of_).failure().code, KINORA_ERROR_NOT_FOUND);
  EXPECT_TRUE(journal.redo());
  EXPECT_TRUE(journal.redo());
  EXPECT_EQ(last_values("a"), (json{{"caption", "two"}, {"keep", false}, {"reason", "dark"}}));
  EXPECT_TRUE(journal.change({{"a", own_}}, {{std::nullopt, std::nullopt, true}}));
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
  ASSERT_TRUE(mia.change({{"a", own_}}, {{"mia's", std::nullopt, std::nullopt}}));
  ASSERT_TRUE(tom.change({{"a", own_}}, {{"tom's", std::nullopt, std::nullopt}}));
  const auto undone = mia.undo(own_of_);
  ASSERT_FALSE(undone);
  EXPECT_THAT(undone.failure().message, testing::HasSubstr("another author"));
  EXPECT_EQ(last_values("a")["caption"], "tom's");
}

TEST_F(EditJournalTest, ATornLastLineIsIgnoredAndRemovedByTheNextEdit) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change({{"a", own_}}, {{"one", std::nullopt, std::nullopt}}));
  std::ofstream(file_, std::ios::app) << R"({"key":"a","set":{"caption":"to)";
  EditJournal other(file_, "tom");
  ASSERT_TRUE(other.refresh());
  EXPECT_EQ(*other.history().now("a").caption, "one");
  ASSERT_TRUE(other.change({{"b", own_}}, {{"two", std::nullopt, std::nullopt}}));
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
      for (int i = 0; i < kEach; ++i) {
        const std::string key = "k" + std::to_string(w) + "-" + std::to_string(i);
        EXPECT_TRUE(journal.change({{key, own_}}, {{"x", std::nullopt, std::nullopt}}));
      }
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
      for (int i = 0;; ++i)
        (void)journal.change({{"a", own_}}, {{std::to_string(i), std::nullopt, std::nullopt}});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 17 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EditJournal journal(file_, "tom");
    ASSERT_TRUE(journal.refresh());
    ASSERT_TRUE(
        journal.change({{"b", own_}}, {{"after " + std::to_string(round), std::nullopt, std::nullopt}}));
    std::istringstream in(text());
    for (std::string line; std::getline(in, line);) EXPECT_TRUE(core::parse_edit(line)) << line;
  }
}

constexpr std::nullopt_t kNone = std::nullopt;

TEST_F(EditJournalTest, AStepOfManyClipsIsUndoneAndRedoneAsOne) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change({{"a", own_}}, {{kNone, kNone, true}}));
  const auto all = journal.change({{"a", own_}, {"b", own_}, {"c", own_}}, {{kNone, "dark", false}});
  EXPECT_EQ(keys(all), (Keys{"a", "b", "c"}));
  std::istringstream in(text());
  std::vector<bool> more;
  for (std::string line; std::getline(in, line);) more.push_back(json::parse(line).value("more", false));
  EXPECT_EQ(more, (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(keys(journal.undo(own_of_)), (Keys{"a", "b", "c"}));
  EXPECT_EQ(journal.history().now("a").keep, true);
  EXPECT_EQ(journal.history().edited().size(), 1U);
  EXPECT_EQ(last_values("c"), json({{"keep", nullptr}, {"reason", ""}}));
  EditJournal later(file_, "mia");
  EXPECT_EQ(keys(later.redo()), (Keys{"a", "b", "c"}));
  EXPECT_EQ(later.history().now("c"), (Change{kNone, "dark", false}));
  EXPECT_TRUE(later.undo(own_of_));
  EXPECT_EQ(keys(later.undo(own_of_)), Keys{"a"});
  EXPECT_TRUE(later.history().edited().empty());
}

TEST_F(EditJournalTest, WhatAWriterKnowsIsWhatAReaderReads) {
  EditJournal mia(file_, "mia"), tom(file_, "tom");
  const auto equal = [&](const EditJournal& writer, const char* what) {
    EditJournal reader(file_, "ada");
    ASSERT_TRUE(reader.refresh());
    const EditHistory &a = writer.history(), &b = reader.history();
    ASSERT_EQ(a.all().size(), b.all().size()) << what;
    for (size_t i = 0; i < a.all().size(); ++i)
      EXPECT_EQ(line_of(a.all()[i]), line_of(b.all()[i])) << what << i;
    for (const char* key : {"a", "b", "c"}) EXPECT_EQ(a.now(key), b.now(key)) << what << key;
    EXPECT_EQ(a.undoable("mia").size(), b.undoable("mia").size()) << what;
    EXPECT_EQ(a.redoable("mia").size(), b.redoable("mia").size()) << what;
  };
  ASSERT_TRUE(mia.change({{"a", own_}, {"b", own_, {{"sha256", "s"}}}}, {{kNone, "dark", false}, {"sea"}}));
  equal(mia, "edit ");
  ASSERT_TRUE(mia.undo(own_of_));
  equal(mia, "undo ");
  ASSERT_TRUE(mia.redo());
  equal(mia, "redo ");
  ASSERT_TRUE(tom.change({{"a", own_}, {"c", own_}}, {{"tom's", kNone, true}}));
  equal(tom, "of another ");
  std::ofstream(file_, std::ios::app) << "none\n";
  ASSERT_TRUE(tom.refresh());
  EXPECT_THAT(tom.wrong(), testing::HasSubstr("line 9: ")) << "its own lines count";
}

TEST_F(EditJournalTest, AStepWhoseEndIsMissingIsIgnoredAndRemovedByTheNextEdit) {
  EditJournal journal(file_, "mia");
  ASSERT_TRUE(journal.change({{"z", own_}}, {{"kept", kNone, kNone}}));
  ASSERT_TRUE(journal.change({{"a", own_}, {"b", own_}, {"c", own_}}, {{kNone, kNone, false}}));
  const std::string whole = text();
  const size_t first = whole.find('\n') + 1, second = whole.find('\n', first) + 1,
               third = whole.find('\n', second) + 1;
  for (const size_t size : {first + 5, second, second + 5, third, whole.size() - 1}) {
    fs::resize_file(file_, size);
    EditJournal other(file_, "tom");
    ASSERT_TRUE(other.refresh());
    EXPECT_EQ(other.history().edited().size(), 1U) << size;
    EXPECT_EQ(core::read_edits(file_).edited().size(), size + 1 < whole.size() ? 1U : 4U) << "typed by hand";
    std::ofstream(file_) << whole;
  }
  fs::resize_file(file_, third);
  EditJournal other(file_, "tom");
  ASSERT_TRUE(other.change({{"a", own_}}, {{"new", kNone, kNone}}));
  EXPECT_EQ(core::read_edits(file_).now("a"), (Change{"new", kNone, kNone}));
  EXPECT_EQ(core::read_edits(file_).now("b"), Change());
}

TEST_F(EditJournalTest, AKilledWriterLeavesWholeSteps) {
  constexpr int kClips = 60;
  std::vector<Target> clips;
  for (int i = 0; i < kClips; ++i) clips.push_back({"k" + std::to_string(i), own_});
  for (int round = 0; round < 4; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      EditJournal journal(file_, "mia");
      for (int i = 0;; ++i) (void)journal.change(clips, {{std::to_string(i), kNone, kNone}});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 13 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EditJournal journal(file_, "tom");
    ASSERT_TRUE(journal.refresh());
    for (const Target& clip : clips)
      EXPECT_EQ(journal.history().now(clip.key).caption, journal.history().now("k0").caption) << clip.key;
    ASSERT_TRUE(journal.change({{"b", own_}}, {{std::to_string(round), kNone, kNone}}));
  }
}

TEST_F(EditJournalTest, TagsAreAddedToThoseOfOthersAndRemovedByName) {
  const Change own{"its own", "", true, core::Tags{"day"}};
  EditJournal mia(file_, "mia"), tom(file_, "tom");
  ASSERT_TRUE(mia.change({{"a", own}, {"b", own}}, {{}, {"sea", "day"}}));
  ASSERT_TRUE(tom.change({{"a", own}}, {{}, {"calm"}}));
  EXPECT_EQ(last_values("a")["tags"], (json{"day", "sea", "calm"}));
  EXPECT_EQ(keys(mia.change({{"a", own}, {"b", own}}, {{}, {"calm"}})), Keys{"b"});
  ASSERT_TRUE(mia.change({{"a", own}, {"b", own}}, {{}, {}, {"sea", "none"}}));
  EXPECT_EQ(last_values("b")["tags"], (json{"day", "calm"}));
  ASSERT_TRUE(mia.undo(own_of_));
  EXPECT_EQ(last_values("a")["tags"], (json{"day", "sea", "calm"}));
}

TEST_F(EditJournalTest, ADecisionThatAnotherMadeMeanwhileStaysUntilItHasBeenSeen) {
  EditJournal mia(file_, "mia"), tom(file_, "tom");
  ASSERT_TRUE(tom.change({{"old", own_}}, {{kNone, "logo", false}}));
  ASSERT_TRUE(mia.refresh());
  EditRequest accept{{kNone, "", true}};
  accept.seen = mia.history().all().size();
  ASSERT_TRUE(tom.change({{"b", own_}, {"c", own_}}, {{kNone, "logo", false}}));
  ASSERT_TRUE(tom.change({{"a", own_}}, {{"tom's caption", kNone, kNone}, {"sea"}}));
  const auto saved = mia.change({{"a", own_}, {"b", own_}, {"old", own_}}, accept);
  EXPECT_EQ(keys(saved), (Keys{"a", "old"}))
      << "a caption and a tag are no decision, and an older one was seen";
  ASSERT_EQ(saved->conflicts.size(), 1U);
  EXPECT_EQ(saved->conflicts[0].key, "b");
  EXPECT_EQ(saved->conflicts[0].author, "tom");
  EXPECT_EQ(mia.history().now("b").keep, false);
  accept.seen = mia.history().all().size();
  EXPECT_EQ(keys(mia.change({{"b", own_}}, accept)), Keys{"b"});
}

TEST_F(EditJournalTest, ACaptionThatAnotherWroteMeanwhileStays) {
  EditJournal mia(file_, "mia"), tom(file_, "tom");
  ASSERT_TRUE(tom.change({{"a", own_}}, {{"tom's", kNone, kNone}}));
  EditRequest request{{"mia's", kNone, kNone}};
  request.caption_seen = "its own";
  const auto saved = mia.change({{"a", own_}}, request);
  EXPECT_EQ(keys(saved), Keys());
  EXPECT_EQ(saved->conflicts.at(0).set.caption, "tom's");
  request.caption_seen = "tom's";
  EXPECT_EQ(keys(mia.change({{"a", own_}}, request)), Keys{"a"});
}

TEST_F(EditJournalTest, UndoOfAStepLeavesWhatAnotherHasChangedSince) {
  EditJournal mia(file_, "mia"), tom(file_, "tom");
  ASSERT_TRUE(mia.change({{"a", own_}, {"b", own_}}, {{kNone, "dark", false}}));
  ASSERT_TRUE(tom.change({{"b", own_}}, {{kNone, "", true}}));
  const auto undone = mia.undo(own_of_);
  EXPECT_EQ(keys(undone), Keys{"a"});
  EXPECT_EQ(undone->conflicts.at(0).author, "tom");
  EXPECT_EQ(mia.history().now("b").keep, true);
  EXPECT_EQ(keys(mia.redo()), Keys{"a"});
  EXPECT_EQ(mia.history().now("b").keep, true);
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
  const auto saved = journal.change({{"a", own_}}, {{"x", std::nullopt, std::nullopt}});
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.failure().message, testing::HasSubstr("nothing was saved. The folder is gone"));
  EXPECT_FALSE(*journal.refresh());
}

TEST_F(EditJournalTest, ALinkInPlaceOfTheFileIsSaid) {
  fs::create_symlink(folder_ / "of the team.jsonl", file_);
  const auto saved = EditJournal(file_, "mia").change({{"a", own_}}, {{"x", std::nullopt, std::nullopt}});
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.failure().message,
              testing::HasSubstr("nothing was saved. Put the file in place of the link"));
}

TEST(Remedy, IsOneForAFullDiskOneForPermissionsAndOneForAReadOnlyMount) {
  EXPECT_THAT(remedy_of(ENOSPC), testing::HasSubstr("space"));
  EXPECT_THAT(remedy_of(EACCES), testing::HasSubstr("writable for you"));
  EXPECT_THAT(remedy_of(EROFS), testing::HasSubstr("Mount"));
}

}  // namespace
}  // namespace kinora::studio
