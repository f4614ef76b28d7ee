// Tests that the parts which several processes have made become the record of one.
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class PartsOfRecord : public testing::Test {
 protected:
  PartsOfRecord() : folder_(fs::path(testing::TempDir()) / ("parts-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "data");
    for (const char* key : {"b", "a"})
      inputs_.push_back(
          {.key = key, .url = std::string("/videos/") + key + ".mp4", .size = 5, .modified = 7});
  }
  ~PartsOfRecord() override { fs::remove_all(folder_); }

  // One with a clip of "b" and its end, and a clip of "a" that has not ended.
  fs::path part(const std::string& base = "x") {
    const fs::path out = folder_ / "part";
    fs::create_directories(out / "data");
    Record record(out, inputs_, {.base = base, .named = true});
    record.set_content(inputs_[0], "hash of b");
    std::ofstream(out / "data/b-0000.mp4") << "xyz";
    record.end(line("b-0000"), {1, {"b"}, {"b"}}, {{"b-0000.mp4", 3}});
    record.end(line("b"), {0, {"b"}, {}}, json::object());
    record.end(line("a-0000"), {1, {"a"}, {"a"}}, json::object());
    return out;
  }
  Record open() { return Record(folder_, inputs_, {.base = "x"}); }
  static json line(const std::string& key) {
    return {{"key", key}, {"end", "kept"}, {"facts", json::object()}};
  }

  const fs::path folder_;
  std::vector<Input> inputs_;
};

TEST_F(PartsOfRecord, AreTakenOverAsIfTheWorkHadBeenDoneHere) {
  const fs::path from = part();
  {
    Record record = open();
    EXPECT_EQ(record.adopt(from, {"b", "a", "unknown"}), 1) << "a has not ended there";
    EXPECT_EQ(record.adopt(from, {"b", "a"}), 0) << "once";
    EXPECT_TRUE(record.has_ended(inputs_[0]));
    EXPECT_FALSE(record.has_ended(inputs_[1]));
    EXPECT_THAT(record.ended_of(inputs_[1]), testing::IsEmpty());
    EXPECT_EQ(record.content(inputs_[0]), "hash of b");
    EXPECT_EQ(record.ended_before(), 1);
    EXPECT_EQ(record.clips_before(), 1);
    EXPECT_TRUE(record.knows("b-0000", true));
    EXPECT_TRUE(record.has_stored("b-0000"));
    record.end(line("a"), {0, {"a"}, {}}, json::object());
  }
  fs::remove_all(from);
  Record again = open();
  std::vector<std::string> keys, files;
  again.each([&](const json& one, bool, const json& stored) {
    keys.push_back(one["key"]);
    for (const auto& [name, size] : stored.items()) files.push_back(name);
  });
  EXPECT_THAT(keys, ElementsAre("b", "b-0000", "a"));
  EXPECT_THAT(files, ElementsAre("b-0000.mp4"));
  EXPECT_EQ(fs::file_size(folder_ / "data/b-0000.mp4"), 3u) << "the part's end leaves the file";
}

// Whatever does not fit is done again by the process that puts the parts together.
TEST_F(PartsOfRecord, ThatDoNotFitAreLeftOut) {
  const fs::path from = part();
  {
    Record record = open();
    record.end(line("b-0000"), {1, {"a"}, {"a"}}, json::object());
    EXPECT_EQ(record.adopt(from, {"b"}), 0) << "another sample has the key of a clip";
    record.forget(inputs_[1]);
    inputs_[0].modified = 8;
  }
  {
    Record record = open();
    EXPECT_EQ(record.adopt(from, {"b"}), 0) << "the video has changed since";
    inputs_[0].modified = 7;
  }
  fs::resize_file(from / "data/b-0000.mp4", 2);
  Record record = open();
  EXPECT_EQ(record.adopt(from, {"b"}), 0) << "a file is cut";
  EXPECT_FALSE(record.has_ended(inputs_[0]));
  EXPECT_THROW(record.adopt(folder_ / "none", {"b"}), Error);
  EXPECT_THROW(record.adopt(part("y"), {"b"}), Error) << "other options";
}

}  // namespace
}  // namespace kinora::core
