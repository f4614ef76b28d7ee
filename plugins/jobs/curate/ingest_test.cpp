// Tests which inputs of a curate job end before any stage sees them.
#include "plugins/jobs/curate/ingest.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/plugin/host.hpp"
#include "plugins/jobs/curation/input_rows_testing.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class IngestTest : public testing::Test {
 protected:
  IngestTest() : folder_(fs::path(testing::TempDir()) / ("ingest-" + std::to_string(getpid()))) {
    fs::create_directories(folder_ / "data");
  }
  ~IngestTest() override { fs::remove_all(folder_); }
  Input& put(const std::string& key, const std::string& bytes) {
    const std::string file = folder_ / (key + ".mp4");
    std::ofstream(file) << bytes;
    const FoundFile found = found_file(file);
    return inputs_.emplace_back(
        Input{.url = file, .wanted = key, .size = found.size, .modified = found.modified});
  }
  // The keys of the videos that were emitted, and the log lines.
  std::pair<std::vector<std::string>, std::string> run(Ingest::Options options = {}) {
    std::pair<std::vector<std::string>, std::string> out;
    {
      const auto log = or_throw(LogFile::open(folder_ / "log"));
      RecordOf record(folder_, inputs_, {.base = "x"});
      Ingest ingest(record.rows, record, options);
      while (const auto video = ingest.next()) {
        out.first.emplace_back(video->key());
        const std::string key(video->key());
        record.end({{"key", key}, {"end", "kept"}, {"facts", json::object()}}, {0, {key}, {}},
                   json::object());
      }
      ends_ = json::object();
      record.each([&](const json& line, bool, const json&) { ends_[line["key"].get<std::string>()] = line; });
    }
    std::ifstream in(folder_ / "log");
    out.second = {std::istreambuf_iterator<char>(in), {}};
    fs::remove(folder_ / "log");
    return out;
  }
  fs::path folder_;
  std::vector<Input> inputs_;
  json ends_;
};

TEST_F(IngestTest, AnEmptyFileHasFailedAndIsNoCopyOfAnother) {
  put("a", ""), put("b", ""), put("c", "film");
  inputs_[1].modified = 0;  // a storage without modification times: the bytes decide
  for (const bool hash : {true, false}) {
    if (!hash) inputs_.erase(inputs_.begin() + 1), remove_record(folder_);
    EXPECT_THAT(run({.hash = hash, .drop_duplicates = true}).first, ElementsAre("c"));
    for (const char* key : {"a", "b"}) {
      if (!hash && *key == 'b') continue;
      EXPECT_EQ(ends_[key]["end"], "failed") << key;
      EXPECT_THAT(ends_[key]["reason"].get<std::string>(), HasSubstr("the file is empty; fetch it again"))
          << key;
    }
  }
}

// Opening it would wait for a writer.
TEST_F(IngestTest, APipeThatIsNamedAsAVideoHasFailedAndNobodyWaitsForIt) {
  ::alarm(60);
  put("a", "film");
  const std::string pipe = folder_ / "pipe.mp4";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const int64_t modified : {0, 5}) {  // as found when named directly, and as listed by a folder
    inputs_.push_back({.url = pipe, .modified = modified});
    for (const bool hash : {true, false}) {
      EXPECT_THAT(run({.hash = hash, .drop_duplicates = true}).first, ElementsAre("a"));
      EXPECT_EQ(ends_["pipe"]["end"], "failed");
      EXPECT_THAT(ends_["pipe"]["reason"].get<std::string>(),
                  HasSubstr("pipe.mp4: not a regular file but a pipe; "));
      remove_record(folder_);
    }
    inputs_.pop_back();
  }
  ::alarm(0);
}

TEST_F(IngestTest, AnEarlierRunThatTookAnEmptyFileForACopyIsPutRight) {
  put("a", ""), put("b", "");
  {
    RecordOf record(folder_, inputs_, {.base = "x"});
    for (const auto& input : inputs_) record.set_content(input, sha256(""));
    record.end({{"key", "a"}, {"end", "failed"}, {"facts", json::object()}}, {0, {"a"}, {}}, json::object());
    record.end({{"key", "b"}, {"end", "filtered"}, {"of", "a"}, {"facts", json::object()}}, {0, {"b"}, {}},
               json::object());
  }
  run();
  EXPECT_EQ(ends_["b"]["end"], "failed");
}

// A video that was moved: its results stay, and are not made twice.
TEST_F(IngestTest, ACopyOfAVideoThatIsNoLongerListedIsACopy) {
  put("a", "film");
  EXPECT_THAT(run().first, ElementsAre("a"));
  inputs_.clear();
  put("moved", "film");
  EXPECT_THAT(run().first, ElementsAre());
  EXPECT_EQ(ends_["moved"]["of"], "a");
  EXPECT_EQ(ends_["a"]["end"], "kept");
  {
    RecordOf record(folder_, inputs_, {.base = "x", .prune = {(folder_ / "a.mp4").string()}});
    EXPECT_EQ(record.pruned().videos, 1);
  }
  EXPECT_THAT(run().first, ElementsAre("moved")) << "it is not a copy any more";
}

TEST_F(IngestTest, WhatIsSaidOfACopyAloneIsNamedBeforeItIsLost) {
  put("a", "film").user = {{"licence", "CC0"}, {"place", "sea"}};
  inputs_[0].caption = "A boat.";
  put("same", "film").user = {{"licence", "CC0"}};
  inputs_[1].caption = "A boat.";
  put("plain", "film");
  put("other", "film").user = {{"licence", "own"}, {"place", "sea"}, {"year", 1999}};
  inputs_[3].caption = "A ship.";
  const auto [videos, log] = run();
  EXPECT_THAT(videos, ElementsAre("a"));
  EXPECT_THAT(log, HasSubstr("other: it is a copy of a and"));
  EXPECT_THAT(log, HasSubstr("has: caption, licence, year;"));
  EXPECT_EQ(log.find("same: "), log.npos);
  EXPECT_EQ(log.find("plain: "), log.npos);
}

}  // namespace
}  // namespace kinora::core
