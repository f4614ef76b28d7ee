#include "core/base/log.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Log, FileGetsTheLinesOfItsTimeAndNoForgedOnes) {
  ASSERT_TRUE(start_log("info"));
  const std::string path = testing::TempDir() + "/kinora-log-test.txt";
  std::remove(path.c_str());
  testing::internal::CaptureStderr();
  {
    auto file = LogFile::open(path);
    ASSERT_TRUE(file);
    log_warn("video {}", "a\n2030-01-01 error forged\x1b[2J");
    log_line(KINORA_LOG_DEBUG, "below the level");
    EXPECT_EQ(log_to_files("for the file alone"), path);
    log_info("kept if the process is killed now");
    EXPECT_THAT(text_of(path), testing::HasSubstr("kept if the process is killed now\n"));
  }
  EXPECT_EQ(log_to_files("no file is open"), "");
  log_warn("after the file was closed");
  const std::string errors = testing::internal::GetCapturedStderr();
  const std::string text = text_of(path);
  EXPECT_THAT(text, testing::HasSubstr("video a\\n2030-01-01 error forged\\x1b[2J\n"));
  EXPECT_THAT(text, testing::HasSubstr("for the file alone\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(errors, testing::HasSubstr("after the file was closed"));
  EXPECT_THAT(errors, testing::Not(testing::HasSubstr("for the file alone")));
  std::remove(path.c_str());
}

TEST(Log, AFullDiskIsSaidOnceAndStopsNothing) {
  ASSERT_TRUE(start_log("info"));
  testing::internal::CaptureStderr();
  {
    auto file = LogFile::open("/dev/full");
    ASSERT_TRUE(file);
    log_warn("the first line");
    log_warn("the second line");
  }
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_THAT(errors, testing::HasSubstr("the second line"));
  EXPECT_THAT(errors, testing::Not(testing::HasSubstr("LOG ERROR")));
  const std::string said = "kinora: a log is missing lines: ";
  const size_t at = errors.find(said);
  ASSERT_NE(at, std::string::npos) << errors;
  EXPECT_EQ(errors.find(said, at + 1), std::string::npos) << errors;
  EXPECT_THAT(errors, testing::HasSubstr("No space left on device"));
}

TEST(Log, UnknownLevelIsSuggestedAndUnwritableFileIsSaid) {
  EXPECT_THAT(start_log("wran").failure().message, testing::HasSubstr("did you mean 'warn'?"));
  EXPECT_THAT(LogFile::open("/proc/nowhere/log").failure().message,
              testing::HasSubstr("/proc/nowhere/log: cannot write the log"));
}

}  // namespace
}  // namespace kinora::core
