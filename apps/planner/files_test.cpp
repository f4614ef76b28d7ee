// Tests of reading a model's shape, writing a run file and measuring the machine.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/calibrate.hpp"
#include "apps/planner/model_shape.hpp"
#include "apps/planner/write_toml.hpp"

namespace kinora::core::plan {
namespace {

using testing::HasSubstr;

TEST(PlanShape, IsThatOfTheModelsOptions) {
  const nlohmann::json options = {{"size", "7B-wide"}, {"text_size", 1024}};
  const auto s = shape_of("model/dit", options, {16, 88, 160}, 512);
  ASSERT_TRUE(s) << s.failure().message;
  // `kinora inspect model/dit --set size=7B-wide --set text_size=1024 --input latent=1x16x16x88x160 ...`
  EXPECT_EQ(s->parameters(), 7142402112.0);
  EXPECT_EQ(s->tokens(), 16 * 44 * 80);
  EXPECT_NEAR(s->forward_flops() / 2.209459612942336e15, 1, 1e-6);
  EXPECT_THAT(shape_of("model/dit", options, {16, 89, 160}, 512).failure().message,
              HasSubstr("does not divide"));
  EXPECT_THAT(shape_of("model/ar", options, {16, 88, 160}, 512).failure().message,
              HasSubstr("model/ar is not known"));
}

TEST(PlanShape, LatentsAreThoseOfTheTokenizer) {
  EXPECT_EQ(
      *latent_of("tokenizer/cosmos", {{"temporal_compression_ratio", 8}, {"spatial_compression_ratio", 16}},
                 121, 704, 1280),
      (LatentSize{16, 44, 80}));
  EXPECT_EQ(*latent_of("tokenizer/wan", nlohmann::json::object(), 81, 480, 832), (LatentSize{21, 60, 104}));
  EXPECT_EQ(*latent_of("tokenizer/wan", {{"patch_size", 2}}, 121, 704, 1280), (LatentSize{31, 44, 80}));
  EXPECT_EQ(*parse_latent("21x90x160"), (LatentSize{21, 90, 160}));
  for (const char* wrong : {"", "21", "21x90", "21x90x", "21x90x160x2", "0x90x160", "axbxc"})
    EXPECT_FALSE(parse_latent(wrong)) << wrong;
}

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
