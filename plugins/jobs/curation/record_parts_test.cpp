// Tests that the parts which several processes have made become the record of one.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/input_rows_testing.hpp"

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
    RecordOf record(out, inputs_, {.base = base, .named = true});
    record.set_content(inputs_[0], "hash of b");
    std::ofstream(out / "data/b-0000.mp4") << "xyz";
    record.end(line("b-0000"), {1, {"b"}, {"b"}}, {{"b-0000.mp4", 3}});
    record.end(line("b"), {0, {"b"}, {}}, json::object());
    record.end(line("a-0000"), {1, {"a"}, {"a"}}, json::object());
    return out;
  }
  RecordOf open() { return RecordOf(folder_, inputs_, {.base = "x"}); }
  static json line(const std::string& key) {
    return {{"key", key}, {"end", "kept"}, {"facts", json::object()}};
  }

  const fs::path folder_;
  std::vector<Input> inputs_;
};

TEST_F(PartsOfRecord, AreTakenOverAsIfTheWorkHadBeenDoneHere) {
  const fs::path from = part();
  {
    RecordOf record = open();
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
  RecordOf again = open();
  std::vector<std::string> keys, files;
  again.each([&](const json& one, bool, const json& stored) {
    keys.push_back(one["key"]);
    for (const auto& [name, size] : stored.items()) files.push_back(name);
  });
  EXPECT_THAT(keys, ElementsAre("b", "b-0000", "a"));
  EXPECT_THAT(files, ElementsAre("b-0000.mp4"));
  EXPECT_EQ(fs::file_size(folder_ / "data/b-0000.mp4"), 3u) << "the part's end leaves the file";
}

// A process that is killed while it takes over parts: the next one takes over the rest.
TEST_F(PartsOfRecord, AreTakenOverOnceThoughTheProcessIsKilled) {
  constexpr int kParts = 12, kInputs = 20;
  inputs_.clear();
  for (int i = 0; i < kParts * kInputs; ++i) {
    const std::string key = fmt::format("v{:03}", i);
    inputs_.push_back({.key = key, .url = "/videos/" + key + ".mp4", .size = 5, .modified = 7});
  }
  const auto part_of = [&](int at) { return folder_ / "parts" / std::to_string(at); };
  const auto keys_of = [&](int at) {
    std::vector<std::string> out;
    for (int i = at * kInputs; i < (at + 1) * kInputs; ++i) out.push_back(inputs_[i].key);
    return out;
  };
  for (int at = 0; at < kParts; ++at) {
    const fs::path out = part_of(at);
    fs::create_directories(out / "data");
    std::vector<Input> own(inputs_.begin() + at * kInputs, inputs_.begin() + (at + 1) * kInputs);
    RecordOf record(out, own, {.base = "x", .named = true});
    for (const auto& key : keys_of(at)) {
      std::ofstream(out / "data" / (key + "-0000.mp4")) << key;
      record.end(line(key + "-0000"), {1, {key}, {key}}, {{key + "-0000.mp4", key.size()}});
      record.end(line(key), {0, {key}, {}}, json::object());
    }
  }
  for (const int after : {1, 4, 9}) {
    int to_parent[2];
    ASSERT_EQ(::pipe(to_parent), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        RecordOf record = open();
        for (int at = 0; at < kParts; ++at) {
          record.adopt(part_of(at), keys_of(at));
          if (::write(to_parent[1], "x", 1) != 1) ::_exit(1);
        }
        ::pause();
      } catch (const std::exception&) {
      }
      ::_exit(1);
    }
    ::close(to_parent[1]);
    char one = 0;
    for (int i = 0; i < after; ++i) ASSERT_EQ(::read(to_parent[0], &one, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(to_parent[0]);
  }
  RecordOf record = open();
  EXPECT_GE(record.ended_before(), 9 * kInputs);
  for (int at = 0; at < kParts; ++at) record.adopt(part_of(at), keys_of(at));
  EXPECT_EQ(record.ended_before(), kParts * kInputs);
  EXPECT_EQ(record.clips_before(), kParts * kInputs);
  std::vector<std::string> keys, expected;
  record.each([&](const json& of, bool, const json&) { keys.push_back(of["key"]); });
  for (const auto& input : inputs_) expected.insert(expected.end(), {input.key, input.key + "-0000"});
  EXPECT_EQ(keys, expected) << "each once";
  for (const auto& input : inputs_)
    EXPECT_EQ(fs::file_size(folder_ / "data" / (input.key + "-0000.mp4")), input.key.size());
}

// Whatever does not fit is done again by the process that puts the parts together.
TEST_F(PartsOfRecord, ThatDoNotFitAreLeftOut) {
  const fs::path from = part();
  {
    RecordOf record = open();
    record.end(line("b-0000"), {1, {"a"}, {"a"}}, json::object());
    EXPECT_EQ(record.adopt(from, {"b"}), 0) << "another sample has the key of a clip";
    record.forget(inputs_[1]);
    inputs_[0].modified = 8;
  }
  {
    RecordOf record = open();
    EXPECT_EQ(record.adopt(from, {"b"}), 0) << "the video has changed since";
    inputs_[0].modified = 7;
  }
  fs::resize_file(from / "data/b-0000.mp4", 2);
  RecordOf record = open();
  EXPECT_EQ(record.adopt(from, {"b"}), 0) << "a file is cut";
  EXPECT_FALSE(record.has_ended(inputs_[0]));
  EXPECT_THROW(record.adopt(folder_ / "none", {"b"}), Error);
  EXPECT_THROW(record.adopt(part("y"), {"b"}), Error) << "other options";
}

}  // namespace
}  // namespace kinora::core
