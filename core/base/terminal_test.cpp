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

TEST(Terminal, PartsAreShownWholeOrNotAtAll) {
  const std::string row = "clips 3/4, 12 s left, 0.6x real time";
  EXPECT_EQ(fitted_parts(row, row.size()), row);
  EXPECT_EQ(fitted_parts(row, row.size() - 1), "clips 3/4, 12 s left");
  EXPECT_EQ(fitted_parts(row, 12), "clips 3/4");
  EXPECT_EQ(fitted_parts(row, 5), "clips");
}

}  // namespace
}  // namespace kinora::core
