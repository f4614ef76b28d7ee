// Legal compositions of strategies, and the errors for the others.
#include "core/torch/ranks/mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/host.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;
using MeshSizes = MeshOwner::Sizes;

TEST(Layout, GivesWhatIsLeftToTheOneStrategyWithoutASize) {
  EXPECT_EQ(sizes_of({}, 1), MeshSizes{});
  EXPECT_EQ(sizes_of({{"tp", "tp", 2}, {"ddp", "dp", 0}}, 8), (MeshSizes{{"tp", 2}, {"dp", 4}}));
  EXPECT_EQ(sizes_of({{"fsdp", "fsdp", 0}}, 1), (MeshSizes{{"fsdp", 1}}));
  EXPECT_EQ(sizes_of({{"tp", "tp", 2}, {"cp-ring", "cp", 3}}, 6), (MeshSizes{{"tp", 2}, {"cp", 3}}));
}

TEST(Layout, OfAnyNumberOfRanksIsTheLeast) {
  EXPECT_EQ(sizes_of({}, kAnyWorld), MeshSizes{});
  EXPECT_EQ(sizes_of({{"tp", "tp", 2}, {"cp-ring", "cp", 3}}, kAnyWorld), (MeshSizes{{"tp", 2}, {"cp", 3}}));
  EXPECT_EQ(sizes_of({{"tp", "tp", 2}, {"ddp", "dp", 0}}, kAnyWorld), (MeshSizes{{"tp", 2}, {"dp", 1}}));
}

TEST(Layout, RefusesWithTheRuleAndTheNearestThatIsLegal) {
  const auto refused = [](const std::vector<AxisUse>& uses, int64_t world) {
    return test::refusal([&] { sizes_of(uses, world); });
  };
  EXPECT_THAT(refused({}, 2),
              HasSubstr("none of its strategies shares work among ranks, and this launch has 2"));
  EXPECT_THAT(refused({{"cp-ring", "cp", 2}, {"cp-ulysses", "cp", 2}}, 4),
              HasSubstr("cp-ring and cp-ulysses both cut along cp; leave one out (cp-2d"));
  const AxisUse ddp{"ddp", "dp", 0, false}, fsdp{"fsdp", "fsdp"}, other{"other", "tp", 0, false};
  EXPECT_THAT(refused({fsdp, ddp}, 4), HasSubstr("fsdp and ddp both would; give fsdp a size"));
  EXPECT_THAT(refused({ddp, fsdp}, kAnyWorld), HasSubstr("ddp and fsdp both would; give fsdp a size"));
  EXPECT_THAT(refused({ddp, other}, 4), HasSubstr("ddp and other both would; leave one out"));
  EXPECT_THAT(
      refused({{"tp", "tp", 4}, {"cp-ring", "cp", 2}}, 12),
      HasSubstr(
          "multiply to 8, and this launch has 12 ranks; start 8, or add ddp, which takes what is left of a "
          "multiple; for 12 ranks change one, if the model allows it: tp = 6 or cp = 3"));
  EXPECT_THAT(
      refused({{"tp", "tp", 4}, {"ddp", "dp", 0}}, 6),
      HasSubstr(
          "multiply to 4, and the 6 ranks of this launch are not a multiple; start 8; for 6 ranks change "
          "one, if the model allows it: tp = 6"));
}

}  // namespace
}  // namespace kinora::core
