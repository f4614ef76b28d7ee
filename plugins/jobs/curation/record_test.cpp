// Tests what a run finds again after an interruption, and what it must not.
#include "plugins/jobs/curation/record.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/host.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/input_rows_testing.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class InFolder : public testing::Test {
 protected:
  InFolder() : folder_(fs::path(testing::TempDir()) / ("record-" + std::to_string(getpid()))) {
    fs::create_directories(folder_ / "data");
  }
  ~InFolder() override { fs::remove_all(folder_); }
  fs::path folder_;
};

// A key must be usable in a file name and in a line of JSON. Keys of folders keep their dots.
TEST(StoredKeys, HaveNoDotInTheirLastPartAndAreText) {
  for (const char* good : {"film-0000", "a.b/c", "..a/b", "\xC3\xA9"})
    EXPECT_EQ(problem_of_key(good), "") << good;
  for (const auto& [bad, word] : {std::pair{"film-0000.report", "has a dot in its last part"},
                                  {".a", "has a dot in its last part"},
                                  {"a/b.c", "'-' or '_' instead of the dot"},
                                  {"film-\xff\xfe", "'film-\xEF\xBF\xBD\xEF\xBF\xBD' is not UTF-8"}})
    EXPECT_NE(problem_of_key(bad).find(word), std::string::npos) << problem_of_key(bad);
}

class RecordTest : public InFolder {
 protected:
  RecordTest() {
    for (const char* key : {"b", "a"})
      inputs_.push_back({.url = std::string("/videos/") + key + ".mp4", .size = 5, .modified = 7});
  }
  RecordOf open(Record::Options options = {.base = "x"}) { return RecordOf(folder_, inputs_, options); }
  RecordOf open_retrying(int64_t retries) { return open({.base = "x", .retries = retries}); }
  static json line(const std::string& key, const std::string& end = "kept") {
    return {{"key", key}, {"end", end}, {"facts", json::object()}};
  }
  // The outcome of an input.
  static void finish(Record& record, const std::string& key, const std::string& end = "kept") {
    record.end(line(key, end), {0, {key}, {}}, json::object());
  }
  // The outcome of a sample that was made of `parent`, of the input whose key begins it, and is stored if it
  // is kept.
  void clip(Record& record, const std::string& key, const std::string& parent,
            const std::string& end = "kept") {
    joined(record, key, {parent.substr(0, 1)}, {parent}, end);
  }
  void joined(Record& record, const std::string& key, std::vector<std::string> inputs,
              std::vector<std::string> parents, const std::string& end = "kept") {
    json files = json::object();
    if (end == "kept") {
      std::ofstream(folder_ / "data" / (key + ".mp4")) << "xyz";
      files[key + ".mp4"] = 3;
    }
    record.end(line(key, end),
               {parents.size() == 1 && parents[0].size() == 1 ? 1 : 2, std::move(inputs), std::move(parents)},
               files);
  }
  std::vector<std::string> order(Record& record) {
    std::vector<std::string> out;
    record.each([&](const json& one, bool, const json&) { out.push_back(one["key"]); });
    return out;
  }
  std::vector<std::string> stored() {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_ / "data")) out.push_back(entry.path().stem());
    std::sort(out.begin(), out.end());
    return out;
  }
  // Two clips of each input, all done.
  void fill(Record& record) {
    for (const auto& input : inputs_) {
      for (const char* number : {"-0000", "-0001"}) clip(record, input.key + number, input.key);
      finish(record, input.key);
    }
  }
  Input& b() { return inputs_[0]; }
  Input& a() { return inputs_[1]; }
  std::vector<Input> inputs_;
};

TEST_F(RecordTest, GoesOnWhereItWasKilled) {
  {
    RecordOf record = open();
    clip(record, "b-0001", "b"), clip(record, "b-0000", "b"), clip(record, "a-0000", "a");
    clip(record, "a-0001", "a", "filtered"), clip(record, "a-0002", "a", "failed");
    finish(record, "b");
    std::ofstream(folder_ / "data/a-0003.mp4") << "stored, but killed before it was recorded";
  }
  {
    RecordOf record = open();
    EXPECT_EQ(record.ended_before(), 1);
    EXPECT_EQ(record.clips_before(), 4);
    EXPECT_EQ(record.ends(true), (std::map<std::string, int64_t>{{"filtered", 1}, {"kept", 3}}));
    EXPECT_EQ(record.ends(false), (std::map<std::string, int64_t>{{"kept", 1}}));
    EXPECT_TRUE(record.has_ended(b()) && !record.has_ended(a()));
    EXPECT_THAT(record.ended_of(a()), ElementsAre("a-0000", "a-0001")) << "what failed is done again";
    EXPECT_TRUE(record.knows("a-0000", true) && !record.knows("a-0002", true) && !record.knows("b", false));
    EXPECT_TRUE(record.has_stored("a-0000") && !record.has_stored("a-0001"));
    EXPECT_THAT(stored(), ElementsAre("a-0000", "b-0000", "b-0001"));
    EXPECT_THROW(order(record), Error);
    clip(record, "a-0002", "a");
    EXPECT_FALSE(record.knows("a-0002", true)) << "it is of this run";
    finish(record, "a");
    EXPECT_THAT(order(record), ElementsAre("b", "b-0000", "b-0001", "a", "a-0000", "a-0001", "a-0002"));
  }
  RecordOf again = open();
  EXPECT_EQ(again.ended_before(), 2);
  EXPECT_THAT(order(again), ElementsAre("b", "b-0000", "b-0001", "a", "a-0000", "a-0001", "a-0002"));
}

TEST_F(RecordTest, SaysWhichInputsTheEngineLost) {
  RecordOf record = open();
  finish(record, "b");
  try {
    order(record);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("lost 1 of 2 inputs (a)"));
  }
}

// The samples that a failed one was made of are made again; others that were made of them are known.
TEST_F(RecordTest, RetriesFailuresOncePerRequest) {
  {
    RecordOf record = open();
    clip(record, "b-0000", "b"), finish(record, "b");
    clip(record, "a-0001-0", "a-0001"), clip(record, "a-0001-1", "a-0001", "failed");
    clip(record, "a-0000", "a"), clip(record, "a-0001", "a"), clip(record, "a-0002", "a", "filtered");
    finish(record, "a");
  }
  EXPECT_EQ(open().ended_before(), 2) << "nobody asked";
  for (const bool killed : {false, true}) {
    RecordOf record = open_retrying(1);
    EXPECT_EQ(record.retried(), killed ? 0 : 1);
    EXPECT_TRUE(record.has_ended(b()) && !record.has_ended(a()));
    EXPECT_THAT(record.ended_of(a()), ElementsAre("a-0000", "a-0001-0", "a-0002"));
    EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001-0", "b-0000"));
  }
  {
    RecordOf record = open_retrying(1);
    clip(record, "a-0001-1", "a-0001"), clip(record, "a-0001", "a");
    finish(record, "a", "failed");
  }
  EXPECT_EQ(open_retrying(1).ended_before(), 2) << "once per requested retry";
  EXPECT_EQ(open_retrying(2).ended_before(), 1);
}

// A sample of two inputs is lost to both if it is lost to one of them, and so is what else was made of these.
TEST_F(RecordTest, InputsThatWereJoinedAreDoneTogetherOrNotAtAll) {
  inputs_.push_back({.url = "/videos/c.mp4", .size = 5, .modified = 7});
  const auto done = [&](bool all) {
    RecordOf record = open();
    clip(record, "c-0000", "c"), finish(record, "c");
    clip(record, "a-0000", "a");
    joined(record, "pair", {"a", "b"}, {"a-0000", "b"});
    finish(record, "a");
    if (all) finish(record, "b");
  };
  done(false);
  {
    RecordOf record = open();
    EXPECT_FALSE(record.has_ended(a()) || record.has_ended(b()));
    EXPECT_TRUE(record.has_ended(inputs_[2]));
    EXPECT_THAT(record.ended_of(a()), IsEmpty());
    EXPECT_THAT(stored(), ElementsAre("c-0000"));
  }
  remove_record(folder_);
  done(true);
  {
    RecordOf record = open();
    EXPECT_EQ(record.ended_before(), 3);
    EXPECT_THAT(order(record), ElementsAre("b", "a", "a-0000", "c", "c-0000", "pair"));
  }
  b().size = 6;
  {
    RecordOf record = open();
    EXPECT_EQ(record.ended_before(), 1);
    EXPECT_THAT(stored(), ElementsAre("c-0000"));
    joined(record, "pair", {"a", "b"}, {"a", "b"}, "failed"), finish(record, "a"), finish(record, "b");
  }
  EXPECT_EQ(open_retrying(1).ended_before(), 1);
}

// The next run may make it of other clips, since these may end in another order.
TEST_F(RecordTest, AnInputWithASampleOfSeveralClipsIsDoneAsAWhole) {
  {
    RecordOf record = open();
    clip(record, "b-0000", "b"), joined(record, "two", {"a"}, {"a-0000", "a-0001"}),
        clip(record, "a-0000", "a");
  }
  RecordOf record = open();
  EXPECT_THAT(record.ended_of(a()), IsEmpty());
  EXPECT_THAT(record.ended_of(b()), ElementsAre("b-0000"));
}

TEST_F(RecordTest, StartsOverWhereItCannotGoOn) {
  const auto fill_b = [&](std::vector<std::string> inputs) {
    RecordOf record = open();
    joined(record, "b-0000", inputs, inputs);
  };
  fill_b({"b"});
  EXPECT_THAT(open({.base = "other options"}).ended_of(b()), IsEmpty());
  EXPECT_THAT(stored(), IsEmpty());
  fill_b({});
  EXPECT_THAT(open().ended_of(b()), IsEmpty()) << "it was made of no input";
  EXPECT_THAT(stored(), IsEmpty());
  fill_b({"b"});
  EXPECT_THAT(open({.base = "x", .per_clip = false}).ended_of(b()), IsEmpty()) << "branches";
  remove_record(folder_);
  std::ofstream(folder_ / "journal.jsonl") << "of an earlier version";
  EXPECT_EQ(open().ended_before(), 0);
  EXPECT_FALSE(fs::exists(folder_ / "journal.jsonl"));
}

TEST_F(RecordTest, KeepsOtherVideosWhenOneChangesOrLosesAFile) {
  {
    RecordOf record = open();
    fill(record);
  }
  b().size = 6;
  {
    const RecordOf record = open();
    EXPECT_EQ(record.ended_before(), 1);
    EXPECT_EQ(record.changed().videos, 1);
    EXPECT_EQ(record.changed().clips, 2);
  }
  EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001"));
  fs::remove(folder_ / "data/a-0001.mp4");
  EXPECT_EQ(open().ended_before(), 0);
  EXPECT_THAT(stored(), IsEmpty());
}

// A file that cannot be seen now may be on a disk that is missing.
TEST_F(RecordTest, AVideoThatCannotBeSeenKeepsItsResultsAndGoesOnWhenItIsBack) {
  const auto see = [&](bool is_seen, const char* caption) {
    b().size = is_seen ? 5 : 0, b().modified = is_seen ? 7 : 0, b().caption = caption;
    return open();
  };
  {
    RecordOf record = see(true, "mine");
    fill(record);
  }
  EXPECT_TRUE(see(false, "mine").has_ended(b()));
  EXPECT_TRUE(see(true, "mine").has_ended(b())) << "it is seen again";
  EXPECT_FALSE(see(false, "another").has_ended(b())) << "its metadata has changed";
  EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001"));
  {
    RecordOf record = see(true, "mine");
    record.set_content(b(), "hash");
    clip(record, "b-0000", "b");
  }
  {
    RecordOf record = see(false, "mine");
    EXPECT_THAT(record.ended_of(b()), ElementsAre("b-0000"));
    finish(record, "b", "failed");  // it cannot be read
  }
  EXPECT_TRUE(see(false, "mine").has_ended(b()));
  RecordOf record = see(true, "mine");
  EXPECT_FALSE(record.has_ended(b()));
  EXPECT_THAT(record.ended_of(b()), ElementsAre("b-0000"));
  EXPECT_EQ(record.content(b()), "hash");
}

TEST_F(RecordTest, ResultsOfUnlistedVideosStayUntilTheyArePruned) {
  {
    RecordOf record = open();
    fill(record);
    record.set_content(b(), "hash of b");
    EXPECT_THAT(record.unlisted_contents(), IsEmpty());
  }
  inputs_.erase(inputs_.begin());
  // Its key is from before the record was read, as Curate::predict() gives it.
  inputs_.push_back({.key = "b", .url = "/other/b.mp4", .size = 9, .modified = 9});
  {
    RecordOf record = open();
    EXPECT_EQ(record.unlisted().videos, 1);
    EXPECT_EQ(record.unlisted().clips, 2);
    EXPECT_EQ(record.unlisted().first, "/videos/b.mp4");
    EXPECT_EQ(inputs_[1].key, "b-2") << "the key of an unlisted video stays its own";
    EXPECT_THAT(record.unlisted_contents(), testing::UnorderedElementsAre(testing::Pair("hash of b", "b")));
    finish(record, "b-2");
    EXPECT_THAT(order(record), ElementsAre("b", "b-0000", "b-0001", "a", "a-0000", "a-0001", "b-2"));
  }
  for (const auto& [entry, clips] :
       std::vector<std::pair<std::string, int64_t>>{{"/videos/b", 0}, {"/other", 0}, {"/videos/b*", 2}}) {
    RecordOf record = open({.base = "x", .prune = {entry}});
    EXPECT_EQ(record.pruned().clips, clips) << entry;
    EXPECT_FALSE(record.knows("b-0000", true) && clips > 0);
  }
  EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001")) << "a listed video is not pruned";
}

// An input that could not be listed has failed. Nothing stays of it when it is no longer an input.
TEST_F(RecordTest, AnUnlistedInputThatOnlyFailedIsForgotten) {
  inputs_.push_back({.url = "/videos/disk", .error = "/videos/disk: contains no files"});
  {
    RecordOf record = open();
    for (const char* key : {"a", "b"}) finish(record, key);
    finish(record, "disk", "failed");
  }
  inputs_.pop_back();
  RecordOf record = open();
  EXPECT_EQ(record.inputs(), 2);
  EXPECT_EQ(record.unlisted().videos + record.pruned().videos, 0);
}

TEST_F(RecordTest, ForgetsAnInputWithItsFiles) {
  RecordOf record = open();
  fill(record);
  record.forget(b());
  EXPECT_FALSE(record.has_ended(b()));
  EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001"));
}

// A record from a stranger may name any file.
TEST_F(RecordTest, TouchesNoFileOutsideItsFolder) {
  const fs::path outside = folder_.parent_path() / ("outside-" + std::to_string(getpid()));
  std::ofstream(outside) << "xyz";
  for (const auto& name : {"../../" + outside.filename().string(), outside.string()}) {
    remove_record(folder_);
    RecordOf record = open();
    record.end(line("b-0000"), {1, {"b"}, {"b"}}, {{name, 3}});
    record.forget(b());
    EXPECT_TRUE(fs::exists(outside)) << name;
    record.end(line("b-0000"), {1, {"b"}, {"b"}}, {{name, 3}});
  }
  EXPECT_EQ(open().changed().videos, 1) << "its file counts as missing";
  fs::remove(outside);
}

TEST_F(RecordTest, WritesNothingWhereItOnlyLooks) {
  {
    RecordOf record = open();
    fill(record);
  }
  const auto files = [&] {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      std::ifstream in(entry.path(), std::ios::binary);
      if (entry.is_regular_file()) out[entry.path()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return out;
  };
  const auto before = files();
  EXPECT_THAT(before, testing::SizeIs(5)) << "record.db and the stored files";
  b().modified += 1;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(open({.base = "x", .looks = true}).changed().clips, 2);
  EXPECT_EQ(files(), before);
  remove_record(folder_);
  EXPECT_EQ(open({.base = "x", .looks = true}).ended_before(), 0);
  EXPECT_FALSE(fs::exists(folder_ / kRecordFile));
}

TEST_F(RecordTest, IsReadWhileAJobWritesItAndRefusedWhereItIsDamaged) {
  const auto keys = [&] {
    std::vector<std::string> out;
    read_record(folder_, [&](int64_t id, const std::string& text) {
      EXPECT_EQ(record_line(folder_, id), text);
      out.push_back(json::parse(text)["key"]);
    });
    return out;
  };
  {
    RecordOf record = open();
    EXPECT_THAT(keys(), IsEmpty());
    clip(record, "b-0000", "b");
    EXPECT_THAT(keys(), ElementsAre("b-0000"));
  }
  fs::resize_file(folder_ / kRecordFile, fs::file_size(folder_ / kRecordFile) / 2);
  for (const bool looks : {true, false}) try {
      open({.base = "x", .looks = looks});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
      EXPECT_THAT(
          e.what(),
          HasSubstr(
              "record.db: database disk image is malformed; the file is damaged: put back a copy of it"));
    }
  EXPECT_THAT(stored(), ElementsAre("b-0000"));
}

// A page asks for the record again and again.
TEST_F(InFolder, ADamagedRecordLeavesNoFileOpen) {
  std::ofstream(folder_ / "record.db") << std::string(4096, 'x');
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  for (const auto access : {Database::Access::read, Database::Access::write, Database::Access::copy})
    EXPECT_THROW(Database(folder_ / "record.db", access), Error);
  EXPECT_EQ(open_files(), before);
}

// A folder in the place of the second file acts as a full device.
TEST_F(RecordTest, OfASampleThatCannotBeStoredNothingStays) {
  fs::create_directories(folder_ / "data/k.mp4");
  Sample sample("k");
  sample.set("json", "{}");
  sample.set("mp4", "xyz");
  ASSERT_EQ(std::string(sample.fields().front().name), "json");
  EXPECT_THROW(store_sample(folder_ / "data", sample), Error);
  EXPECT_THAT(stored(), ElementsAre("k"));
}

}  // namespace
}  // namespace kinora::core
