#include "core/base/quantity.hpp"

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

TEST(ParseSize, ReadsWhatPeopleWrite) {
  const struct {
    const char* text;
    int64_t bytes;
  } cases[] = {{"0", 0},
               {"4096", 4096},
               {"64 B", 64},
               {"2 GiB", 2147483648},
               {"512MiB", 536870912},
               {"10 MB", 10000000},
               {"1.5 GiB", 1610612736},
               {"1 kB", 1000},
               {"1 KB", 1000},
               {"3 tib", 3298534883328},
               {"9007199254740993", 9007199254740993}};
  for (const auto& c : cases) {
    const auto size = parse_size(c.text);
    ASSERT_TRUE(size) << c.text;
    EXPECT_EQ(*size, c.bytes) << c.text;
  }
}

TEST(ParseSize, RefusesTheRest) {
  for (const char* text : {"", "GiB", "-1", "-1 GiB", "1 GiX", "1e400", "nan", "inf", "9 EiB",
                           "99999999999 TiB", "1 GiB 2", "0x10", " 1"}) {
    const auto size = parse_size(text);
    EXPECT_FALSE(size) << text;
  }
}

TEST(FormatSize, IsForPeople) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1536), "1.50 KiB");
  EXPECT_EQ(format_size(UINT64_MAX), "16.00 EiB");
}

}  // namespace
}  // namespace kinora::core
