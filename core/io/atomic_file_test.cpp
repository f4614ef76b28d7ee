#include "core/io/atomic_file.hpp"

#include <csignal>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AtomicIn : public testing::Test {
 protected:
  AtomicIn() : folder_(fs::temp_directory_path() / ("kinora-atomic-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~AtomicIn() override { fs::remove_all(folder_); }
  std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t entries() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(AtomicIn, AFileAppearsWholeOnCommitAndReplacesTheOldOne) {
  ASSERT_TRUE(write_file_atomically(folder_ / "a", "old"));
  auto file = AtomicFile::create(folder_ / "a");
  ASSERT_TRUE(file && file->write("ne") && file->write("w"));
  EXPECT_EQ(text_of(folder_ / "a"), "old");
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(text_of(folder_ / "a"), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(AtomicIn, NothingIsLeftWithoutCommit) {
  {
    auto file = AtomicFile::create(folder_ / "a");
    ASSERT_TRUE(file && file->write("x"));
    auto folder = AtomicFolder::create(folder_ / "b");
    ASSERT_TRUE(folder && write_file_atomically(folder->temporary() / "c", "x"));
    auto moved = *std::move(folder);
    EXPECT_EQ(entries(), 2U);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(AtomicIn, AFolderNeverReplacesAnother) {
  for (const bool first : {true, false}) {
    auto folder = AtomicFolder::create(folder_ / "b");
    ASSERT_TRUE(folder && write_file_atomically(folder->temporary() / "c", first ? "1" : "2"));
    const auto status = folder->commit();
    EXPECT_EQ(static_cast<bool>(status), first);
    if (!first) {
      EXPECT_THAT(status.failure().message, HasSubstr("exists already"));
    }
  }
  EXPECT_EQ(text_of(folder_ / "b" / "c"), "1");
}

TEST_F(AtomicIn, AFolderMayTakeTheOldOnesPlaceInOneStep) {
  for (const char* text : {"1", "2"}) {
    auto folder = AtomicFolder::create(folder_ / "b");
    ASSERT_TRUE(folder && write_file_atomically(folder->temporary() / "c", text));
    ASSERT_TRUE(folder->commit(/*replace=*/true));
    EXPECT_EQ(text_of(folder_ / "b" / "c"), text);
    EXPECT_EQ(entries(), 1U);
  }
}

TEST_F(AtomicIn, AFolderMayBeNamedWithASlash) {
  auto folder = AtomicFolder::create(folder_ / "b" / "");
  ASSERT_TRUE(folder && write_file_atomically(folder->temporary() / "c", "x"));
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(text_of(folder_ / "b" / "c"), "x");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(AtomicIn, TemporariesOfDeadProcessesAreKnown) {
  const std::string mine = temporary_name(folder_ / "step-000001").filename().string();
  EXPECT_FALSE(is_abandoned(mine));
  const auto pid = mine.find("-" + std::to_string(getpid()) + "-");
  ASSERT_NE(pid, std::string::npos);
  EXPECT_TRUE(is_abandoned(mine.substr(0, pid) + "-999999999-1"));
  EXPECT_FALSE(is_abandoned(mine.substr(1)));
  EXPECT_TRUE(is_abandoned(".kinora-tmp-999999999-4"));
  EXPECT_FALSE(is_abandoned(".kinora-tmp-" + std::to_string(getpid()) + "-4"));
  EXPECT_FALSE(is_abandoned(".step-000001.tmp-elsewhere-999999999-1"));
}

TEST_F(AtomicIn, AMissingFolderIsNamed) {
  const auto file = AtomicFile::create(folder_ / "none" / "a");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.failure().code, KINORA_ERROR_NOT_FOUND);
  EXPECT_THAT(file.failure().message, HasSubstr("folder does not exist"));
}

// In a child process as an unprivileged user, since root can write everywhere.
void write_unprivileged(const fs::path& file) {
  if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
  const auto status = write_file_atomically(file, "x");
  if (!status) fprintf(stderr, "said: %s\n", status.failure().message.c_str());
  _exit(1);
}

TEST_F(AtomicIn, AnUnwritableFolderIsNamed) {
  fs::permissions(folder_, fs::perms(0555));
  EXPECT_DEATH(write_unprivileged(folder_ / "a"), "said: .*make the folder writable");
  fs::permissions(folder_, fs::perms::owner_all);
}

// In a child process: writes past this limit fail like a full disk.
void write_to_a_full_disk() {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
  const auto name = fs::temp_directory_path() / ("kinora-full-" + std::to_string(getpid()));
  const auto status = write_file_atomically(name, std::string(1 << 20, 'x'));
  if (!status && !fs::exists(name)) fprintf(stderr, "said: %s\n", status.failure().message.c_str());
  _exit(1);
}

TEST(AtomicFile, AFullDiskIsSaidAndLeavesNoFile) {
  EXPECT_DEATH(write_to_a_full_disk(), "said: .*writing failed");
}

}  // namespace
}  // namespace kinora::core
