#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/regular_stream.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RegularFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-regular-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path pipe(const std::string& name) const {
    EXPECT_EQ(mkfifo((folder_ / name).c_str(), 0600), 0);
    return folder_ / name;
  }
  fs::path folder_;
};

TEST_F(RegularFileTest, AllOfAFileUpToALimit) {
  std::ofstream(folder_ / "file") << "abcd";
  EXPECT_EQ(or_throw(read_regular_file(folder_ / "file", 4)), "abcd");
  EXPECT_EQ(read_regular_file(folder_ / "file", 3).failure().code, KINORA_ERROR_DATA);
  EXPECT_EQ(read_regular_file(folder_ / "none").failure().code, KINORA_ERROR_NOT_FOUND);
  EXPECT_NE(or_throw(read_regular_file("/proc/self/stat")), "") << "its size is said to be 0";
}

// None of these waits for a writer.
TEST_F(RegularFileTest, WhatIsNoFileIsNotRead) {
  const auto file = pipe("job.json");
  EXPECT_THAT(read_regular_file(file).failure().message, HasSubstr("not a regular file but a pipe"));
  EXPECT_THAT(read_regular_file(folder_).failure().message, HasSubstr("not a regular file but a folder"));
  EXPECT_TRUE(object_in_file(file).empty());
  EXPECT_THAT(regular_stream(file).failure().message, HasSubstr("not a regular file but a pipe"));
  EXPECT_THROW(sha256_of_file(file), Error);
  fs::create_directories(folder_ / "plugins/one");
  pipe("plugins/one/plugin.toml");
  const auto plugins = Registry::scan({{.path = folder_ / "plugins", .origin = "--plugins"}}, {}).plugins();
  ASSERT_EQ(plugins.size(), 1);
  EXPECT_EQ(plugins[0].state, PluginState::disabled);
  EXPECT_THAT(plugins[0].reason, HasSubstr("plugin.toml: not a regular file but a pipe"));
}

}  // namespace
}  // namespace kinora::core
