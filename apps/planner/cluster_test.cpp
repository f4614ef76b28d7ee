// Tests of the machine that is planned for: a named cluster, and this one, measured.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/calibrate.hpp"

namespace kinora::core::plan {
namespace {

using testing::HasSubstr;

TEST(Cluster, IsReadAsNodesGpusAndName) {
  const auto c = parse_cluster("32x8xh100");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->nodes, 32);
  EXPECT_EQ(c->size(), 256);
  EXPECT_EQ(c->text(), "32x8xH100");
  for (const auto& name : gpu_names()) EXPECT_TRUE(parse_cluster("1x1x" + name)) << name;
  for (const char* text :
       {"", "8", "8x8", "8x8x", "0x8xH100", "8x-1xH100", "8xH100", "x8xH100", "9999999x8xH100"})
    EXPECT_FALSE(parse_cluster(text)) << text;
  EXPECT_THAT(parse_cluster("8x8xH10").failure().message, HasSubstr("did you mean 'H100'?"));
  EXPECT_THAT(parse_cluster("1x2xhere").failure().message, HasSubstr("kinora plan --calibrate"));
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
