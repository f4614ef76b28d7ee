// Tests that what a job reads is known by its contents: after a move, a copy, a change.
#include "core/io/contents.hpp"

#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/base/digest.hpp"
#include "core/run/description.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ContentsTest : public testing::Test {
 protected:
  ContentsTest() : root_(fs::path(testing::TempDir()) / fmt::format("contents-{}", getpid())) {
    fs::remove_all(root_);
    put("a/vocab.txt", "one two");
    put("a/below/config.json", "{}");
  }
  ~ContentsTest() override { fs::remove_all(root_); }
  fs::path put(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
    return root_ / name;
  }
  std::string of(const std::string& name) { return Contents(root_ / "kept.json").of(root_ / name); }
  std::string of_data(const std::string& name) { return Contents(root_ / "kept.json").of_data(root_ / name); }
  fs::path root_;
};

// The closed form: sha256sum's lines of the files below, by name.
TEST_F(ContentsTest, OfAFolderAreItsNamesAndBytes) {
  EXPECT_EQ(of("a"), sha256(sha256("{}") + "  below/config.json\n" + sha256("one two") + "  vocab.txt\n"));
  EXPECT_EQ(of("a/vocab.txt"), sha256("one two"));
}

TEST_F(ContentsTest, StayAfterAMoveACopyAndAnotherTime) {
  const std::string before = of("a"), data = of_data("a");
  fs::rename(root_ / "a", root_ / "b");
  EXPECT_EQ(of("b"), before);
  fs::copy(root_ / "b", root_ / "c", fs::copy_options::recursive);
  fs::last_write_time(root_ / "c/vocab.txt", fs::file_time_type::clock::now() - std::chrono::hours(9));
  EXPECT_EQ(of("c"), before);
  EXPECT_EQ(of_data("c"), data);
  put("c/.cache/when", "now");
  EXPECT_EQ(of("c"), before) << "what is hidden does not count";
  fs::create_directory_symlink(root_ / "b", root_ / "d");
  fs::create_directory_symlink(root_ / "c", root_ / "c/again");
  EXPECT_EQ(of("d"), before);
  EXPECT_EQ(of("c"), before) << "a folder within itself";
}

TEST_F(ContentsTest, ChangeWithAByteOrAName) {
  const std::string before = of("a"), data = of_data("a");
  const auto time = fs::last_write_time(root_ / "a/vocab.txt");
  put("a/vocab.txt", "one tw0");
  fs::last_write_time(root_ / "a/vocab.txt", time);
  EXPECT_NE(of("a"), before) << "of the same size and time";
  EXPECT_NE(of_data("a"), data);
  put("a/vocab.txt", "one two");
  EXPECT_EQ(of("a"), before);
  fs::rename(root_ / "a/vocab.txt", root_ / "a/words.txt");
  EXPECT_NE(of("a"), before);
}

TEST_F(ContentsTest, AreReadOnceAlsoAfterAMove) {
  Contents contents(root_ / "kept.json");
  contents.of(root_ / "a");
  contents.save();
  std::ifstream in(root_ / "kept.json");
  json kept = json::parse(in);
  ASSERT_EQ(kept.size(), 2U);
  for (auto& [file, digest] : kept.items()) digest = "kept";
  put("kept.json", kept.dump());
  fs::rename(root_ / "a", root_ / "b");
  EXPECT_EQ(of("b/vocab.txt"), "kept");
  put("kept.json", "damaged");
  EXPECT_EQ(of("b/vocab.txt"), sha256("one two"));
}

TEST_F(ContentsTest, AreTakenFromThoseWhoKnowThem) {
  const std::string digest = sha256("blob");
  const fs::path blob = put("hub/blobs/" + digest, "not read");
  fs::create_directories(root_ / "hub/snapshots/1");
  fs::create_symlink("../../blobs/" + digest, root_ / "hub/snapshots/1/model.safetensors");
  EXPECT_EQ(of("hub/snapshots/1/model.safetensors"), digest);
  put("step/weights.safetensors", "12345");
  const auto state = [&](int bytes) {
    put("step/state.json",
        json{{"files", {{"weights.safetensors", {{"bytes", bytes}, {"sha256", digest}}}}}}.dump());
  };
  state(5);
  EXPECT_EQ(of("step/weights.safetensors"), digest);
  state(6);
  EXPECT_EQ(of("step/weights.safetensors"), sha256("12345")) << "the list is of another file";
  const json files{{"weights.safetensors", {{"bytes", 5}, {"sha256", digest}}}};
  put("dit/weights.safetensors", "12345");
  put("dit/summary.json", json{{"status", "done"}, {"files", files}}.dump());
  EXPECT_EQ(of("dit/weights.safetensors"), digest) << "of a finished job";
}

// Data of more than 1 GiB would take long to read; the file here takes no room on the disk.
TEST_F(ContentsTest, OfMuchDataAreNamesSizesAndTimes) {
  const fs::path large = put("a/large.tar", "");
  fs::resize_file(large, (uint64_t{1} << 30) + 1);
  const std::string before = of_data("a");
  fs::rename(root_ / "a", root_ / "b");
  EXPECT_EQ(of_data("b"), before);
  fs::last_write_time(root_ / "b/large.tar", fs::file_time_type::clock::now() - std::chrono::hours(9));
  EXPECT_NE(of_data("b"), before);
}

// job.json's "contents" says what paths name: then it counts, and not the path.
TEST(Difference, IsOfContentsWhereBothSidesKnowThem) {
  json a{{"options", {{"weights", "/a"}, {"steps", 2}}}, {"contents", {{"weights", {"1"}}}}}, b = a;
  b["options"]["weights"] = "/b";
  EXPECT_EQ(difference(a, b), "");
  b["contents"]["weights"] = {"2"};
  EXPECT_EQ(difference(a, b), R"(weights was "/a" and is "/b")");
  b["options"]["weights"] = "/a";
  EXPECT_EQ(difference(a, b), "weights names files with other contents");
  a.erase("contents");
  EXPECT_EQ(difference(a, b), "");
}

// An option that changes no result, such as the engine, does not make a job start again.
TEST(Difference, IsOfNoSlotThatSaysHow) {
  const auto spec = [](const json& isolate, int level) {
    const json engine{{"slot", "engine"}, {"id", "engine/local"}, {"options", {{"isolate", isolate}}}},
        stage{{"slot", "stages"}, {"id", "stage/x"}, {"options", {{"level", level}}}};
    return json{{"how_only", {"threads", "engine"}},
                {"components", {engine, stage}},
                {"contents", {{"engine.trace", {isolate}}}}};
  };
  EXPECT_EQ(difference(spec("none", 1), spec("all", 2)), "stages.level was 1 and is 2");
}

}  // namespace
}  // namespace kinora::core
