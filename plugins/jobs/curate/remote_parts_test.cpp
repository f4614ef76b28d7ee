// Tests that a part that one process uploads is the part that another one fetches.
#include "plugins/jobs/curate/remote_parts.hpp"

#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/runtime/runtime.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/input_rows_testing.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// A folder stands for the bucket.
class PartsElsewhere : public testing::Test {
 protected:
  PartsElsewhere() : folder_(fs::path(testing::TempDir()) / ("remote-parts-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(there() / "data/deep");
    runtime_ = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
  }
  ~PartsElsewhere() override { fs::remove_all(folder_); }

  // Makes the part of a process that has done one input, with a small and a large file.
  void make() {
    const fs::path part = in("one");
    fs::create_directories(part / "data/deep");
    std::vector<Input> inputs(1);
    inputs[0].key = "a", inputs[0].url = "/videos/a.mp4";
    RecordOf record(part, inputs, {.base = "x", .named = true});
    std::ofstream(part / "data/deep/a-0000.txt") << "small";  // a record removes what it does not know
    std::ofstream(part / "data/a-0000.mp4") << std::string(kLarge, 'x');
    record.end({{"key", "a-0000"}, {"end", "kept"}}, {1, {"a"}, {"a"}},
               {{"deep/a-0000.txt", 5}, {"a-0000.mp4", kLarge}});
    record.end({{"key", "a"}, {"end", "kept"}}, {0, {"a"}, {}}, json::object());
  }
  fs::path in(const std::string& process) const { return folder_ / process / "parts" / lease_.part(); }
  fs::path there() const { return folder_ / "bucket/parts" / lease_.part(); }
  std::string at() const { return (folder_ / "bucket").string(); }
  void fetch() { fetch_part(at(), folder_ / "two", lease_); }
  bool is_whole() const {
    return fs::file_size(in("two") / "data/deep/a-0000.txt") == 5 &&
           fs::file_size(in("two") / "data/a-0000.mp4") == kLarge;
  }

  static constexpr uint64_t kLarge = 9'000'000;
  const RangeLease lease_{.first = 20, .end = 21, .epoch = 2};
  const fs::path folder_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(PartsElsewhere, AreFetchedAsTheyWereUploaded) {
  make();
  upload_part(folder_ / "one", at(), lease_);
  EXPECT_FALSE(fs::exists(in("one"))) << "it takes no room twice";
  fetch();
  EXPECT_TRUE(is_whole());
  std::vector<Input> inputs(1);
  inputs[0].url = "/videos/a.mp4";
  fs::create_directories(folder_ / "out/data");
  RecordOf record(folder_ / "out", inputs, {.base = "x"});
  EXPECT_EQ(record.adopt(in("two"), {"a"}), 1);
}

TEST_F(PartsElsewhere, AreFetchedFurtherAfterAKill) {
  make();
  upload_part(folder_ / "one", at(), lease_);
  fetch();
  fs::resize_file(in("two") / "data/a-0000.mp4", 3);
  fs::remove(in("two") / "data/deep/a-0000.txt");
  fetch();
  EXPECT_TRUE(is_whole());
  fs::remove(there() / "data/a-0000.mp4");
  fetch();
  EXPECT_TRUE(is_whole()) << "what is here is not asked for again";
}

TEST_F(PartsElsewhere, OfAStrangerWriteNoFileElsewhere) {
  make();
  upload_part(folder_ / "one", at(), lease_);
  std::ofstream(there() / "evil") << "evil";
  Database(there() / kRecordFile, Database::Access::write)
      .run("UPDATE file SET name = '../evil' WHERE name = 'a-0000.mp4'");
  fetch();
  EXPECT_FALSE(fs::exists(in("two") / "evil"));
  EXPECT_FALSE(fs::exists(in("two") / "data/a-0000.mp4"));
}

TEST_F(PartsElsewhere, ThatAreNotThereAreAnError) { EXPECT_THROW(fetch(), Error); }

}  // namespace
}  // namespace kinora::core
