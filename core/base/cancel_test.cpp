#include "core/base/cancel.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kinora::core {
namespace cancel_test {

void pause_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// SIGTERMs at 0, 1.9 and 3.2 s: the second one is the same request, the third is another, which ends the process.
[[noreturn]] void be_terminated() {
  watch_signals();
  raise(SIGTERM);
  pause_for(1900);
  raise(SIGTERM);
  if (!cancelled()) std::_Exit(1);
  pause_for(1300);
  raise(SIGTERM);
  std::_Exit(2);
}

[[noreturn]] void write_beyond_the_largest_file() {
  watch_signals();
  std::FILE* file = std::tmpfile();
  rlimit limit{};
  if (file == nullptr || getrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(1);
  limit.rlim_cur = 0;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(1);
  std::_Exit(write(fileno(file), "x", 1) < 0 && errno == EFBIG ? 0 : 2);
}

TEST(CancelDeathTest, ASecondSigtermEndsTheProcessThreeSecondsAfterTheFirst) {
  EXPECT_EXIT(be_terminated(), testing::ExitedWithCode(130), "stopping");
}

TEST(CancelDeathTest, AFileThatCannotGrowIsAnErrorOfItsCall) {
  EXPECT_EXIT(write_beyond_the_largest_file(), testing::ExitedWithCode(0), "");
}

}  // namespace cancel_test
}  // namespace kinora::core
