// Tests of writing a run file and measuring the machine.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/calibrate.hpp"
#include "apps/planner/write_toml.hpp"

namespace kinora::core::plan {
namespace {

using testing::HasSubstr;

TEST(PlanWrite, ReplacesAJobsValuesAndNothingElse) {
  const std::string before = R"([run]
name = "x"  # parallel = 1

[[job]]
name = "other"
parallel = ["single"]

[[job]]
name = "dit"
parallel = [  # of ] two
  "single",
  { use = "recompute", every = 2 },
]
batch = 8
)";
  const auto after = with_values(
      before, "dit",
      {{"parallel", R"(parallel = [{ use = "tp", size = 2 }])"}, {"accumulate", "accumulate = 4"}});
  ASSERT_TRUE(after) << after.failure().message;
  EXPECT_EQ(*after, R"([run]
name = "x"  # parallel = 1

[[job]]
name = "other"
parallel = ["single"]

[[job]]
name = "dit"
accumulate = 4
parallel = [{ use = "tp", size = 2 }]
batch = 8
)");
  EXPECT_THAT(with_values(before, "none", {{"a", "a = 1"}}).failure().message, HasSubstr("no job 'none'"));
}

TEST(PlanCalibrate, MeasuresAndKeeps) {
  const Machine m = measure(20e9, 0.7);
  EXPECT_GT(m.gpu.memory_bandwidth, 1e8);
  EXPECT_GT(m.gpu.link, 1e7);
  EXPECT_GT(m.latency, 1e-7);
  EXPECT_LT(m.latency, 1e-1);
  const auto file = std::filesystem::path(testing::TempDir()) / "machine.json";
  std::ofstream(file) << json_of(m).dump();
  const auto read = read_machine(file);
  ASSERT_TRUE(read) << read.failure().message;
  EXPECT_EQ(read->gpu.peak, 20e9);
  EXPECT_EQ(read->latency, m.latency);
  EXPECT_EQ(read->efficiency.matrix, 0.7);
  std::ofstream(file) << "{\"peak\": -1}";
  EXPECT_THAT(read_machine(file).failure().message, HasSubstr("damaged; run kinora plan --calibrate again"));
  EXPECT_THAT(read_machine(file.string() + "no").failure().message, HasSubstr("run kinora plan --calibrate"));
}

}  // namespace
}  // namespace kinora::core::plan
