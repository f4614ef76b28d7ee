// Tests what a run finds again after an interruption, and what it must not.
#include "plugins/jobs/curation/record.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/curation/store.hpp"
#include "core/plugin/host.hpp"
#include "core/base/digest.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class InFolder : public testing::Test {
 protected:
  InFolder() : folder_(fs::path(testing::TempDir()) / ("record-" + std::to_string(getpid()))) {
    fs::create_directories(folder_ / "data");
  }
  ~InFolder() override { fs::remove_all(folder_); }
  fs::path folder_;
};

class JournalTest : public InFolder {
 protected:
  std::vector<json> entries() {
    std::vector<json> out;
    Journal journal(folder_ / "j", [&](const json& entry, Journal::Place) { out.push_back(entry); });
    return out;
  }
};

TEST_F(JournalTest, GivesBackWhatWasAppendedUpToAnyByteAtWhichItWasCut) {
  const std::vector<json> all{
      {{"a", 1}}, {{"text", "b\n\"\xC3\xA4"}}, {{"long", std::string(1100000, 'x')}}, {{"c", 0.1}}};
  {
    Journal journal(folder_ / "j", [](const json&, Journal::Place) {});
    std::vector<Journal::Place> places;
    for (const auto& entry : all) places.push_back(journal.append(entry, false));
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(journal.read(places[i]), all[i]);
  }
  EXPECT_EQ(entries(), all);
  const std::string whole = read_file(folder_ / "j");
  for (size_t size = 0; size <= whole.size(); size += size + 70 < whole.size() && size > 140 ? 99991 : 1) {
    std::ofstream(folder_ / "j", std::ios::binary) << whole.substr(0, size);
    const auto found = entries();
    const auto lines =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size), '\n'));
    ASSERT_EQ(found, std::vector<json>(all.begin(), all.begin() + static_cast<ptrdiff_t>(lines))) << size;
    Journal(folder_ / "j", [](const json&, Journal::Place) {}).append({{"next", size}}, false);
    ASSERT_EQ(entries().size(), lines + 1) << size;
  }
}

TEST_F(JournalTest, TrustsNothingFromAWrongByteOn) {
  {
    Journal journal(folder_ / "j", [](const json&, Journal::Place) {});
    for (int i = 0; i < 5; ++i) journal.append({{"n", i}}, true);
  }
  const std::string whole = read_file(folder_ / "j");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string wrong = whole;
    wrong[at] ^= 1;
    std::ofstream(folder_ / "j", std::ios::binary) << wrong;
    const auto before =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(at), '\n'));
    ASSERT_EQ(entries().size(), before) << at;
  }
}

// Another process empties or overwrites the file while it is written: the error has the file, the line and the
// remedy.
TEST_F(JournalTest, SaysWhereItWasChangedWhileItWasInUse) {
  const fs::path file = folder_ / "j";
  const auto said = [&](const std::function<void(const std::string& whole)>& harm, size_t entry) -> std::string {
    fs::remove(file);
    Journal journal(file, [](const json&, Journal::Place) {});
    std::vector<Journal::Place> places;
    for (int i = 0; i < 3; ++i) places.push_back(journal.append({{"n", i}}, false));
    harm(read_file(file));
    try {
      journal.read(places[entry]);
    } catch (const Error& e) {
      return e.code() == KINORA_DATA ? e.what() : "another code";
    }
    return "";
  };
  const auto cut_to = [&](size_t size) { return [&, size](const std::string&) { fs::resize_file(file, size); }; };
  const std::string remedy = "was cut off or overwritten while the job ran; make sure that no other process writes to this folder, and run the "
                             "same command again";
  for (const auto& text : {said(cut_to(0), 2), said([&](const std::string& whole) {
         std::ofstream(file) << std::string(whole.size(), '\0');
       }, 0)}) {
    EXPECT_NE(text.find(remedy), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with(file.string() + ": ")) << text;
    EXPECT_NE(text.find("line 1 "), std::string::npos) << text;
  }
  const std::string inside = said([&](const std::string& whole) { fs::resize_file(file, whole.size() - 5); }, 2);
  EXPECT_NE(inside.find(": line 3 was cut off"), std::string::npos) << inside;
  EXPECT_EQ(said([](const std::string&) {}, 2), "");
}

// A key must be usable in a file name and in a line of JSON. Keys of folders keep their dots.
TEST(StoredKeys, HaveNoDotInTheirLastPartAndAreText) {
  for (const char* good : {"film-0000", "a.b/c", "..a/b", "\xC3\xA9"}) EXPECT_EQ(problem_of_key(good), "") << good;
  for (const auto& [bad, word] : {std::pair{"film-0000.report", "has a dot in its last part"},
                                  {".a", "has a dot in its last part"},
                                  {"a/b.c", "'-' or '_' instead of the dot"},
                                  {"film-\xff\xfe", "'film-\xEF\xBF\xBD\xEF\xBF\xBD' is not UTF-8"}})
    EXPECT_NE(problem_of_key(bad).find(word), std::string::npos) << problem_of_key(bad);
}

class RecordTest : public InFolder {
 protected:
  RecordTest() {
    for (const char* key : {"b", "a"}) inputs_.push_back({.key = key, .url = std::string(key) + ".mp4"});
  }
  Record open(const std::string& base = "x", bool per_clip = true, int64_t retries = 0) {
    return Record(folder_, inputs_, {base, per_clip, retries});
  }
  static json film(const std::string& key, const std::string& end = "kept") {
    return {{"key", key}, {"end", end}, {"facts", json::object()}};
  }
  static json clip(const std::string& key, const std::string& parent, const std::string& end = "kept") {
    json line = film(key, end);
    if (!parent.empty()) line["parent"] = parent;
    return line;
  }
  void keep(Record& record, const std::string& key, const std::string& parent, int32_t made = 1) {
    record.claim(key);
    std::ofstream(folder_ / "data" / (key + ".mp4")) << "xyz";
    record.end(clip(key, parent), made, {{key + ".mp4", 3}});
  }
  std::vector<std::string> order(Record& record) {
    std::vector<std::string> out;
    record.each([&](const json& line, bool, const json&) { out.push_back(line["key"]); });
    return out;
  }
  std::vector<std::string> stored() {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_ / "data")) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::vector<Input> inputs_;
};

TEST_F(RecordTest, AFilmThatCannotBeSeenKeepsWhatIsDoneOfIt) {
  Input& film_b = inputs_[0];
  const auto look = [&](uint64_t size, int64_t modified, const char* caption) {
    film_b.size = size, film_b.modified = modified, film_b.caption = caption;
    return open();
  };
  {
    Record record = look(5, 7, "mine");
    record.begin(film_b), record.begin(inputs_[1]);
    keep(record, "b-0000", "b"), keep(record, "a-0000", "a");
    record.end(film("b"), false, {});
  }
  {
    const Record unseen = look(0, 0, "mine");
    EXPECT_TRUE(unseen.has_ended(film_b));
    EXPECT_EQ(unseen.changed().films + unseen.gone().films, 0);
  }
  EXPECT_THAT(stored(), ElementsAre("a-0000.mp4", "b-0000.mp4"));
  EXPECT_TRUE(look(5, 7, "mine").has_ended(film_b)) << "it is available again";
  EXPECT_FALSE(look(0, 0, "another").has_ended(film_b)) << "its metadata has changed";
  EXPECT_THAT(stored(), ElementsAre("a-0000.mp4"));
}

// The run was killed in it, or its failures are to be retried, while its disk is missing.
TEST_F(RecordTest, AFilmThatCannotBeSeenGoesOnWhenItIsBack) {
  Input& film_b = inputs_[0];
  film_b.size = 5, film_b.modified = 7;
  {
    Record record = open();
    record.begin(film_b), record.begin(inputs_[1]);
    record.set_content(film_b, "hash");
    keep(record, "b-0000", "b"), keep(record, "b-0001", "b"), record.end(film("a"), false, {});
  }
  for (const int64_t retries : {0, 1}) {
    film_b.size = 0, film_b.modified = 0;
    for (const bool again : {false, true}) {
      Record record = open("x", true, retries);
      EXPECT_EQ(record.has_ended(film_b), again);
      EXPECT_THAT(record.ended_of(film_b), ElementsAre("b-0000", "b-0001"));
      EXPECT_EQ(record.content(film_b), "hash");
      if (again) continue;
      record.set_content(film_b, "hash");
      record.end(film("b", "failed"), false, {}), order(record), record.settle();
    }
    film_b.size = 5, film_b.modified = 7;
    for (const bool killed : {true, false}) {
      Record record = open("x", true, retries);
      EXPECT_FALSE(record.has_ended(film_b)) << "it is available again, and was " << killed;
      EXPECT_THAT(record.ended_of(film_b), ElementsAre("b-0000", "b-0001"));
      if (killed) continue;
      record.end(clip("b-0002", "b", "failed"), true, {});
      record.end(film("b"), false, {}), order(record), record.settle();
    }
    EXPECT_TRUE(open("x", true, retries).has_ended(film_b));
    EXPECT_THAT(stored(), ElementsAre("b-0000.mp4", "b-0001.mp4"));
  }
}

TEST_F(RecordTest, SaysWhatGoesWithFilmsAndWritesNothingWhereItOnlyLooks) {
  {
    Record record = open();
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    keep(record, "b-0000", "b"), keep(record, "b-0001", "b"), keep(record, "a-0000", "a");
    for (const char* key : {"a", "b"}) record.end(film(key), false, {});
  }
  inputs_.erase(inputs_.begin());
  inputs_[0].modified += 1;
  const std::string before = read_file(folder_ / "journal.jsonl");
  for (const bool looks : {true, true, false}) {
    const Record record(folder_, inputs_, {.base = "x", .looks = looks});
    EXPECT_EQ(record.gone().films, 1);
    EXPECT_EQ(record.gone().clips, 2);
    EXPECT_EQ(record.changed().films, 1);
    EXPECT_EQ(record.changed().clips, 1);
    EXPECT_EQ(record.ended_before(), 0u);
    EXPECT_EQ(read_file(folder_ / "journal.jsonl") == before, looks);
    EXPECT_EQ(stored().size(), looks ? 3u : 0u);
  }
  fs::remove(folder_ / "journal.jsonl");
  EXPECT_EQ(Record(folder_, inputs_, {.base = "x", .looks = true}).ended_before(), 0u);
  EXPECT_FALSE(fs::exists(folder_ / "journal.jsonl"));
}

TEST_F(RecordTest, OfAFolderThatCannotBeListedNothingIsGone) {
  json ended = film("b");
  ended["url"] = "/films/sub/b.mp4";
  {
    Record record = open();
    record.begin(inputs_[0]);
    keep(record, "b-0000", "b");
    record.end(ended, false, {});
  }
  inputs_[0] = {.key = "sub", .url = "/films/su", .error = "/films/su: contains no files"};
  EXPECT_EQ(Record(folder_, inputs_, {.base = "x", .looks = true}).gone().films, 1);
  inputs_[0] = {.key = "sub", .url = "/films/sub", .error = "/films/sub: cannot be listed"};
  for (const bool looks : {true, false}) try {
      Record(folder_, inputs_, {.base = "x", .looks = looks});
      FAIL();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("/films/sub: cannot be listed; 1 earlier video is below it, so the job does not run"));
    }
  EXPECT_THAT(stored(), ElementsAre("b-0000.mp4"));
}

TEST_F(RecordTest, GoesOnWhereItWasKilled) {
  {
    Record record = open();
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    keep(record, "b-0001", "b"), keep(record, "b-0000", "b"), keep(record, "a-0000", "a");
    record.end(clip("a-0001", "a", "filtered"), true, {});
    record.end(clip("a-0002", "a", "failed"), true, {});
    record.end(film("b"), false, {});
    std::ofstream(folder_ / "data/a-0003.mp4") << "stored, but killed before the line was written";
  }
  {
    Record record = open();
    EXPECT_EQ(record.ended_before(), 1u);
    EXPECT_TRUE(record.has_ended(inputs_[0]) && !record.has_ended(inputs_[1]));
    EXPECT_THAT(record.ended_of(inputs_[1]), ElementsAre("a-0000", "a-0001"));  // what failed is retried
    EXPECT_TRUE(record.knows("a-0000", true) && !record.knows("a-0002", true));
    EXPECT_THAT(stored(), ElementsAre("a-0000.mp4", "b-0000.mp4", "b-0001.mp4"));
    EXPECT_THROW(record.each([](const json&, bool, const json&) {}), Error);
    keep(record, "a-0002", "a");
    record.end(film("a"), false, {});
    EXPECT_THAT(order(record), ElementsAre("b", "b-0000", "b-0001", "a", "a-0000", "a-0001", "a-0002"));
    record.settle();
  }
  Record again = open();
  EXPECT_EQ(again.ended_before(), 2u);
  EXPECT_THAT(order(again), ElementsAre("b", "b-0000", "b-0001", "a", "a-0000", "a-0001", "a-0002"));
}

TEST_F(RecordTest, ForgetsWhatFailedWhenItIsToBeTriedAgain) {
  {
    Record record = open();
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    keep(record, "b-0000", "b");
    record.end(film("b"), false, {});
    keep(record, "a-0000", "a"), keep(record, "a-0001", "a"), keep(record, "a-0001-0", "a-0001");
    record.end(clip("a-0001-1", "a-0001", "failed"), true, {});
    record.end(clip("a-0002", "a", "filtered"), true, {});
    record.end(clip("a-0003-0-0", "a-0003-0", "failed"), true, {});
    record.end(clip("a-0003-0", "a-0003"), true, {}), record.end(clip("a-0003", "a"), true, {});
    record.end(film("a"), false, {});
    order(record);
    record.settle();
  }
  EXPECT_EQ(open().ended_before(), 2u) << "nobody asked";
  for (const bool killed : {false, true}) {  // and started again before anything was done
    Record record = open("x", true, 1);
    EXPECT_EQ(record.retried(), killed ? 0u : 2u);
    EXPECT_TRUE(record.has_ended(inputs_[0]) && !record.has_ended(inputs_[1]));
    // The source of the failed sample is made again; other samples made from it that did not fail are known.
    EXPECT_THAT(record.ended_of(inputs_[1]), ElementsAre("a-0000", "a-0001-0", "a-0002"));
    EXPECT_TRUE(record.knows("a-0001-0", true));
    EXPECT_THAT(stored(), ElementsAre("a-0000.mp4", "a-0001-0.mp4", "b-0000.mp4"));
  }
  {
    Record record = open("x", true, 1);
    keep(record, "a-0001", "a"), keep(record, "a-0001-1", "a-0001");
    record.end(film("a", "failed"), false, {});
    order(record);
    record.settle();
  }
  EXPECT_EQ(open("x", true, 1).ended_before(), 2u) << "once per requested retry";
  EXPECT_EQ(open("x", true, 2).ended_before(), 1u);
}

// A stage after the clips made copies of one whose facts name only the video: the source clip is unknown, so all
// clips are made again, and no earlier file is left.
TEST_F(RecordTest, MakesAFilmAgainOfWhichACopyOfAClipFailed) {
  const auto fill = [&](bool whole) {
    fs::remove(folder_ / "journal.jsonl");
    Record record = open();
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    keep(record, "b-0000-x", "b-0000", 2), record.end(clip("b-0000", "b", "failed"), 1, {});
    record.end(clip("b-0001-x", "b-0001", "failed"), 2, {}), keep(record, "b-0001", "b"), keep(record, "b-0002", "b");
    record.end(clip("b-0002", "b", "failed"), 2, {});  // after it had been emitted
    keep(record, "b-0003", "b");
    record.end(film("b"), 0, {});
    keep(record, "a-0000", "a"), record.end(clip("a-0001x", "a", "failed"), 2, {}), keep(record, "a-0001y", "a", 2);
    keep(record, "a-0001", "a");
    if (!whole) return;
    record.end(film("a"), 0, {});
    order(record), record.settle();
  };
  const auto expect_a_again = [&](Record record) {
    EXPECT_THAT(record.ended_of(inputs_[1]), IsEmpty());
    EXPECT_FALSE(record.has_ended(inputs_[1]) || record.knows("a-0001y", true) || record.knows("a-0000", true));
    EXPECT_EQ(stored().front().front(), 'b');
    keep(record, "a-0001", "a");
  };
  fill(false);
  expect_a_again(open());
  fill(true);
  for (const bool killed : {false, true}) {
    expect_a_again(open("x", true, 1));
    EXPECT_THAT(open("x", true, 1).ended_of(inputs_[0]), ElementsAre("b-0000-x", "b-0003")) << killed;
    EXPECT_THAT(stored(), Contains("b-0000-x.mp4")) << "recognised when its clip is made again";
    fill(true);
  }
}

// Kept copies whose source clip is unknown need no clip again.
TEST_F(RecordTest, KeepsCopiesOfClipsWhereNothingFailed) {
  {
    Record record = open();
    record.begin(inputs_[1]);
    keep(record, "a-0000x", "a", 2), keep(record, "a-0000", "a");
    record.end(clip("a-0001", "a", "failed"), 1, {});
  }
  EXPECT_THAT(open().ended_of(inputs_[1]), ElementsAre("a-0000", "a-0000x"));
}

// A stage made it from a video that had ended: the sample fails, in this run and in those that read its
// journal.
TEST_F(RecordTest, WhatComesAfterItsFilmHasFailed) {
  const auto fill = [&] {
    fs::remove(folder_ / "journal.jsonl");
    Record record = open();
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    EXPECT_EQ(record.too_late(clip("b-0000", "b")), "");
    keep(record, "b-0000", "b");
    EXPECT_EQ(record.too_late(clip("c-0000", "c")), "") << "its video is unknown";
    EXPECT_EQ(record.too_late(clip("b", "")), "") << "its key is that of a video, but it names none";
    record.end(film("b"), 0, {});
    for (const char* parent : {"b", "b-0000"})
      EXPECT_THAT(record.too_late(clip("b-0000-report", parent)), HasSubstr("'b-0000-report' came after that of 'b'")) << parent;
    record.end(clip("b-0000-report", "b", "failed"), 2, {});
    EXPECT_EQ(record.too_late(clip("a-0000", "a")), "");
  };
  fill();
  {
    Record record = open();
    EXPECT_TRUE(record.has_ended(inputs_[0]));
    EXPECT_THROW(record.end(clip("b-0001", "b"), 1, {}), Error) << "it is in the journal already";
  }
  EXPECT_FALSE(open().has_ended(inputs_[0]));
  fill();
  {
    Record record = open();
    record.end(film("a"), 0, {});
    EXPECT_THAT(order(record), ElementsAre("b", "b-0000", "b-0000-report", "a"));
    record.settle();
  }
  EXPECT_EQ(open("x", true, 1).retried(), 1u);
  EXPECT_FALSE(open("x", true, 1).has_ended(inputs_[0]));
}

// A number that no run can have written is ignored: it requests no retry.
TEST_F(RecordTest, TakesNoAbsurdNumberForATryThatWasAskedFor) {
  const auto tries = [&] {
    int out = 0;
    Journal(folder_ / "journal.jsonl", [&](const json& entry, Journal::Place) { out += entry.contains("retry_failed"); });
    return out;
  };
  open();
  for (const json& number : {json("1"), json(), json(-1e300), json(1e300)})
    Journal(folder_ / "journal.jsonl", [](const json&, Journal::Place) {}).append({{"retry_failed", number}}, true);
  open();
  EXPECT_EQ(tries(), 4);
  open("x", true, 1);
  EXPECT_EQ(tries(), 5);
}

TEST_F(RecordTest, KnowsWhoseTheCopiesOfBranchesAre) {
  {
    Record record = open("x", false);
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    keep(record, "b@look", ""), keep(record, "b@look-0000", "b@look"), keep(record, "b-0000@look", "b");
    record.end(film("b"), false, {});
    keep(record, "a@look", "");
  }
  Record record = open("x", false);
  EXPECT_TRUE(record.has_ended(inputs_[0]) && !record.has_ended(inputs_[1]));
  EXPECT_THAT(stored(), ElementsAre("b-0000@look.mp4", "b@look-0000.mp4", "b@look.mp4"));
}

TEST_F(RecordTest, OfEqualWorkInAnyOrderIsTheSameJournal) {
  std::vector<std::string> journals;
  for (const bool other : {false, true}) {
    fs::remove(folder_ / "journal.jsonl");
    Record record = open();
    record.begin(inputs_[other]), record.begin(inputs_[!other]);
    keep(record, other ? "a-0001" : "a-0000", "a"), keep(record, "b-0000", "b");
    keep(record, other ? "a-0000" : "a-0001", "a");
    record.end(film(other ? "a" : "b"), false, {}), record.end(film(other ? "b" : "a"), false, {});
    order(record);
    record.settle();
    journals.push_back(read_file(folder_ / "journal.jsonl"));
  }
  EXPECT_EQ(journals[0], journals[1]);
}

TEST_F(RecordTest, AttributesClipsOfClipsAndForgetsThoseWhoseClipHadNotEnded) {
  {
    Record record = open();
    record.begin(inputs_[0]), record.begin(inputs_[1]);
    keep(record, "b-0000-0", "b-0000");  // waits for b-0000
    keep(record, "a-0000-0", "a-0000");
    record.end(clip("a-0000", "a"), true, {});
    record.end(clip("a-0000-1", "a-0000"), true, {});
  }
  Record record = open();
  EXPECT_THAT(record.ended_of(inputs_[0]), IsEmpty());
  EXPECT_THAT(record.ended_of(inputs_[1]), ElementsAre("a-0000", "a-0000-0", "a-0000-1"));
  EXPECT_THAT(stored(), ElementsAre("a-0000-0.mp4"));
}

TEST_F(RecordTest, StartsOverWhereItCannotGoOn) {
  const auto fill = [&](const std::string& parent) {
    Record record = open();
    record.begin(inputs_[0]);
    keep(record, "b-0000", parent);
  };
  fill("b");
  EXPECT_THAT(open("other options").ended_of(inputs_[0]), IsEmpty());
  EXPECT_THAT(stored(), IsEmpty());
  fill("");  // names no video
  EXPECT_THAT(open().ended_of(inputs_[0]), IsEmpty());
  EXPECT_THAT(stored(), IsEmpty());
  fill("b");
  EXPECT_THAT(open("x", false).ended_of(inputs_[0]), IsEmpty());  // branches
}

TEST_F(RecordTest, KeepsOtherFilmsWhenOneChangesGoesOrLosesAFile) {
  const auto fill = [&] {
    fs::remove(folder_ / "journal.jsonl");
    Record record = open();
    for (const auto& input : inputs_) {
      record.begin(input);
      keep(record, input.key + "-0000", input.key);
      record.end(film(input.key), false, {});
    }
  };
  fill();
  inputs_[0].size = 7;
  EXPECT_EQ(open().ended_before(), 1u);
  EXPECT_THAT(stored(), ElementsAre("a-0000.mp4"));
  inputs_[0].size = 0;  // as before, but its files are gone
  EXPECT_EQ(open().ended_before(), 1u);
  fill();
  inputs_.insert(inputs_.begin(), {.key = "c", .url = "c.mp4"});
  EXPECT_EQ(open().ended_before(), 2u);
  inputs_.erase(inputs_.begin(), inputs_.begin() + 2);
  EXPECT_EQ(open().ended_before(), 1u);
  EXPECT_THAT(stored(), ElementsAre("a-0000.mp4"));
  fs::remove(folder_ / "data/a-0000.mp4");
  EXPECT_EQ(open().ended_before(), 0u);
}

// A stage may name a sample after another input: it belongs to the video that it names, whether that other input has ended
// or not.
TEST_F(RecordTest, ASampleCalledLikeAnotherFilmIsOfTheOneThatItNames) {
  Record record = open();
  record.begin(inputs_[0]), record.begin(inputs_[1]);
  record.end(film("b"), false, {});
  record.end(clip("b", "a"), true, {});
  record.end(clip("b", "", "failed"), true, {});  // names no video
  record.end(film("a"), false, {});
  std::vector<std::string> told;
  record.each([&](const json& line, bool made, const json&) {
    told.push_back(line["key"].get<std::string>() + (made ? " made" : "") + (line.contains("parent") ? " of a" : ""));
  });
  EXPECT_THAT(told, ElementsAre("b", "a", "b made of a", "b made"));
}

// A folder in the place of the second file acts as a full device.
TEST_F(RecordTest, OfASampleThatCannotBeStoredNothingStays) {
  adopt_host();
  fs::create_directories(folder_ / "data/k.mp4");
  Sample sample("k");
  sample.set("json", "{}");
  sample.set("mp4", "xyz");
  ASSERT_EQ(std::string(sample.fields().front().name), "json");
  EXPECT_THROW(store_sample(folder_ / "data", sample), Error);
  EXPECT_THAT(stored(), ElementsAre("k.mp4"));
}

TEST_F(RecordTest, RefusesWhatAnEngineMustNotTell) {
  Record record = open();
  record.begin(inputs_[0]), record.begin(inputs_[1]);
  record.end(film("b"), false, {});
  EXPECT_THROW(record.end(clip("b-0000", "b"), true, {}), Error);
  record.claim("k");
  EXPECT_THROW(record.claim("k"), Error);
  try {
    order(record);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("lost 1 of 2 inputs (a)"));
  }
}

}  // namespace
}  // namespace kinora::core
