#include "media/timestamps.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace kinora::video {
namespace {

struct Case {
  const char* what;
  std::vector<int64_t> raw, placed;
};

constexpr int64_t kNone = TimestampRepair::kMissing;

// A nominal frame lasts 40 ticks, a second 1000.
const Case kCases[] = {
    {"a valid clock is unchanged", {-80, 0, 40, 1000, 1001}, {-80, 0, 40, 1000, 1001}},
    {"missing from the start", {kNone, kNone, kNone}, {0, 40, 80}},
    {"missing in the middle", {0, 40, kNone, 120}, {0, 40, 80, 120}},
    {"repeated", {0, 40, 40, 80}, {0, 40, 41, 80}},
    {"a little back", {0, 40, 20, 80}, {0, 40, 41, 80}},
    {"the clock restarts", {5000, 5040, 0, 40, 80}, {5000, 5040, 5080, 5120, 5160}},
    {"out of any range", {0, INT64_MAX, INT64_MIN + 1, 120}, {0, 40, 80, 120}},
};

TEST(TimestampRepair, AlwaysIncreases) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    TimestampRepair repair(40, 1000);
    std::vector<int64_t> placed;
    for (const int64_t raw : c.raw) placed.push_back(repair.place(raw));
    EXPECT_EQ(placed, c.placed);
    EXPECT_EQ(repair.repaired(), c.raw != c.placed);
  }
}

}  // namespace
}  // namespace kinora::video
