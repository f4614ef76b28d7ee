// Tests that the folder of temporary lists is SQLite's own choice, and that a wrong one is refused.
#include "plugins/jobs/listing/scratch_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/paths.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

class ScratchFolder : public testing::Test {
 protected:
  ScratchFolder() : folder_(fs::path(testing::TempDir()) / fmt::format("scratch-folder-{}", ::getpid())) {
    fs::create_directories(folder_ / "a");
    fs::create_directories(folder_ / "b");
  }
  ~ScratchFolder() override {
    put_back("SQLITE_TMPDIR", sqlite_);
    put_back("TMPDIR", tmp_);
    fs::remove_all(folder_);
  }
  static void put_back(const char* name, const std::string& before) {
    if (before.empty())
      ::unsetenv(name);
    else
      ::setenv(name, before.c_str(), 1);
  }
  const fs::path folder_;
  const std::string sqlite_ = environment("SQLITE_TMPDIR"), tmp_ = environment("TMPDIR");
};

TEST_F(ScratchFolder, IsTheFirstInWhichFilesCanBeMade) {
  ::setenv("SQLITE_TMPDIR", (folder_ / "a").c_str(), 1);
  ::setenv("TMPDIR", (folder_ / "b").c_str(), 1);
  EXPECT_EQ(scratch_folder(), folder_ / "a");
  EXPECT_EQ(scratch_name("the list"),
            fmt::format("the list (a temporary file in {}; SQLITE_TMPDIR names another "
                        "folder)",
                        (folder_ / "a").string()));
  ::unsetenv("SQLITE_TMPDIR");
  EXPECT_EQ(scratch_folder(), folder_ / "b");
  ::setenv("TMPDIR", (folder_ / "missing").c_str(), 1);
  EXPECT_NE(scratch_folder(), folder_ / "missing");
}

TEST_F(ScratchFolder, ThatIsNamedAndIsNoneIsRefused) {
  std::ofstream(folder_ / "file") << "x";
  for (const char* name : {"missing", "file"}) {
    ::setenv("SQLITE_TMPDIR", (folder_ / name).c_str(), 1);
    try {
      scratch_folder();
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      EXPECT_THAT(e.what(),
                  testing::StartsWith("SQLITE_TMPDIR=" + (folder_ / name).string() + ": it is no folder"));
    }
  }
}

}  // namespace
}  // namespace kinora::core
