#include "core/base/terminal.hpp"

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

TEST(Terminal, ARowIsCutByColumnsAndEndsItsColours) {
  EXPECT_EQ(fitted("clips 3/4", 20), "clips 3/4");
  EXPECT_EQ(fitted("clips 3/4", 5), "clips");
  EXPECT_EQ(fitted("K\u00f6ln \u2501\u2501", 6), "K\u00f6ln \u2501")
      << "a character of UTF-8 takes one column";
  EXPECT_EQ(fitted("\033[33mslow\033[0mest", 6), "\033[33mslow\033[0mes\033[0m");
  EXPECT_EQ(fitted("\033[33mslow\033[0m", 4), "\033[33mslow\033[0m") << "an escape sequence takes none";
}

}  // namespace
}  // namespace kinora::core
