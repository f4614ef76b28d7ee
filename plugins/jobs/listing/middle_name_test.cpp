// Tests that a name in the middle is between its ends, is UTF-8, and is found wherever names can be told apart.
#include "plugins/jobs/listing/middle_name.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

// Number of cuts, always at the lower half, until no name is between `low` and the end.
int cuts_from(const std::string& low, std::string high = "") {
  for (int cuts = 0; cuts < 1000; ++cuts) {
    const std::string middle = middle_name(low, high);
    if (middle.empty()) return cuts;
    EXPECT_LT(low, middle);
    EXPECT_TRUE(high.empty() || middle < high) << middle << " and " << high;
    EXPECT_EQ(valid_utf8(middle), middle);
    high = middle;
  }
  return 1000;
}

TEST(MiddleName, IsBetweenWhateverTheNamesAre) {
  std::mt19937 draw(7);
  const std::vector<std::string> letters{
      "a", "7", "~", "/", " ", "\xC3\xA9", "\xE6\x98\xA0", "\xED\x9F\xBF", "\xF0\x9F\x8E\xA5"};
  const auto name = [&] {
    std::string out;
    for (size_t i = draw() % 6; i > 0; --i) out += letters[draw() % letters.size()];
    return out;
  };
  int found = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string low = name(), high = i % 4 == 0 ? "" : name();
    if (!high.empty() && high <= low) std::swap(low, high);
    if (high == low) continue;
    const std::string middle = middle_name(low, high);
    if (middle.empty()) continue;
    ++found;
    ASSERT_TRUE(low < middle && (high.empty() || middle < high)) << low << ", " << middle << ", " << high;
    ASSERT_EQ(valid_utf8(middle), middle);
  }
  EXPECT_GT(found, 15'000);
}

TEST(MiddleName, ClosesInOnTheLowerEnd) {
  EXPECT_GT(cuts_from("films/v000000019.mp4"), 40);
  EXPECT_GT(cuts_from("\xE6\x98\xA0\xE5\x83\x8F/\xE6\x98\xA0.mp4"), 40);
  EXPECT_GT(cuts_from("\xD0\x91"), 15);
  EXPECT_GT(cuts_from("a/\xD0\x91", "a0"), 15);
}

TEST(MiddleName, HalvesTheLettersOfUnicode) {
  const std::string low = "\xE4\xB8\x80", high = "\xE9\xBF\xBF";  // U+4E00 and U+9FFF
  EXPECT_EQ(middle_name(low, high), "\xE7\x9B\xBF") << "U+76FF";
  EXPECT_EQ(middle_name("\xD0\xB0/", "\xD0\xB1"), "\xD0\xB0V~~~~~~~")
      << "neighbours: what begins with the lower one";
}

}  // namespace
}  // namespace kinora::core
