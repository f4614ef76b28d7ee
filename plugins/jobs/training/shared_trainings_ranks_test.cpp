// Whole trainings from a table of data whose ranks share the model, against one process.
#include <cstdlib>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using test::Rank;

constexpr int64_t kSteps = 2, kBatch = 4;

const json kFacts{{"frames", 40}};  // a promise that each clip keeps

// A run whose windows are made when training takes them, from the shard of video_jobs_testing.hpp, whose clip
// b is not a video. path: of the shards.
std::unique_ptr<ScratchRun> prepared_live(const std::string& parallel, int64_t accumulate,
                                          const std::string& path = "shards") {
  auto run = prepared(
      {{"latents",
        "input = { path = '" + path +
            "', shuffle = 4 }\nscale_windows = 2\nevery = 1\n"
            "tokenizer = { use = 'cosmos', latent_channels = 2, encoder_block_out_channels = [4, 8, 8], "
            "decode_block_out_channels = [4, 8, 8] }\ntokenizer_weights = "
            "'FOLDER/tokenizer/weights.safetensors'\n"},
       {"dit",
        fmt::format("weights = 'FOLDER/start.safetensors'\nprecision = 'fp64'\nsteps = {}\nbatch = {}\n"
                    "accumulate = {}\nwarmup = 0\nlearning_rate = 0.01\noptimizer = {{ use = 'adamw', eps = "
                    "1e-4 }}\nema = 0\ntensorboard = false\nparallel = {}\n",
                    kSteps, kBatch, accumulate, parallel)}},
      {{"a", kFacts}, {"c", kFacts}, {"d", kFacts}});
  ScratchRun::save(*run->model("dit"), run->folder() / "start.safetensors");
  return run;
}

// Four clips of one size. Returns the bytes of a sample in the shard.
int64_t write_equal_clips(const ScratchRun& run) {
  const fs::path fields = run.folder() / "fields", video = fs::path(KINORA_TEST_DATA) / "bbb_C.mp4";
  for (const char* key : {"w", "x", "y", "z"}) {
    fs::copy_file(video, fields / (std::string(key) + ".mp4"));
    std::ofstream(fields / (std::string(key) + ".txt")) << (*key < 'y' ? "sea" : "red");
    std::ofstream(fields / (std::string(key) + ".json")) << kFacts.dump();
  }
  const std::string command =
      fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' w.* x.* y.* z.*", fields.string(),
                  run.of("shards").string());
  EXPECT_EQ(std::system(command.c_str()), 0);
  const auto blocks = static_cast<int64_t>((fs::file_size(video) + 511) / 512);
  return (blocks + 1 + 1 + 3) * 512;  // the video, caption, facts, and their headers
}

struct Trained {
  std::vector<json> lines;  // on rank 0
  json summary;
};

Trained trained(const ScratchRun& run, bool writes) {
  JobContext context = run.context("dit", writes);
  test::run_job(context);
  return {writes ? run.metrics("dit") : std::vector<json>(), context.summary};
}

Trained trained_alone(const ScratchRun& run) {
  Rank::alone();
  encoded(run);
  return trained(run, true);
}

Trained trained_together(const ScratchRun& run, const Rank& me) {
  Rank::alone();
  encoded(run);
  me.launched();
  return trained(run, me.rank == 0);
}

void expect_same_training(const Trained& got, const Trained& want) {
  ASSERT_EQ(want.lines.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(got.lines.size(), want.lines.size());
  for (size_t i = 0; i < want.lines.size(); ++i)
    for (const char* name : {"loss", "gradient_norm"})
      EXPECT_NEAR(got.lines[i].at(name).get<double>() / want.lines[i].at(name).get<double>(), 1, 1e-10)
          << name << i;
  EXPECT_NE(want.lines[0].at("loss"), want.lines[1].at("loss"));
}

void expect_equal_with_a_damaged_clip(const std::string& parallel) {
  test::on_ranks(2, [&](const Rank& me) {
    const std::string shards = me.folder + "/shards";
    if (me.rank == 0) fs::copy(prepared_live("['single']", 1)->of("shards"), shards);
    me.meet("shards");
    const auto together = trained_together(*prepared_live(parallel, 2, shards), me);
    if (me.rank != 0) return;
    const auto alone = trained_alone(*prepared_live("['single']", 2, shards));
    expect_same_training(together, alone);
    EXPECT_EQ(alone.summary.at("failed"), 1);
    EXPECT_EQ(together.summary.at("failed"), 1) << "whichever ranks met it";
  });
}

TEST(SharedTrainings, EqualOneProcessWithADamagedClipUnderTp) { expect_equal_with_a_damaged_clip("['tp']"); }

TEST(SharedTrainings, EqualOneProcessWithADamagedClipUnderPp) { expect_equal_with_a_damaged_clip("['pp']"); }

// Each rank reads its part and no more: of all samples, and of the example whose products are counted in each group.
void expect_parts(int ranks, const std::string& parallel, int64_t groups) {
  test::on_ranks(ranks, [&](const Rank& me) {
    const auto run = prepared_live(parallel, 1);
    const int64_t each = write_equal_clips(*run);
    const auto together = trained_together(*run, me);
    if (me.rank != 0) return;
    const auto other = prepared_live("['single']", 1);
    write_equal_clips(*other);
    const auto alone = trained_alone(*other);
    expect_same_training(together, alone);
    int64_t of_alone = 0, of_all = 0;
    std::vector<int64_t> of_rank(static_cast<size_t>(ranks));
    for (const auto& line : alone.lines) of_alone += line.at("data_bytes").get<int64_t>();
    for (const auto& line : together.lines) {
      of_all += line.at("data_bytes").get<int64_t>();
      for (size_t r = 0; r < of_rank.size(); ++r)
        of_rank[r] += line.at("ranks").at("data_bytes").at(r).get<int64_t>();
    }
    EXPECT_EQ(of_alone, (kSteps * kBatch + 1) * each);
    EXPECT_EQ(of_all, (kSteps * kBatch + groups) * each);
    for (const int64_t bytes : of_rank) EXPECT_NEAR(bytes / each, kSteps * kBatch / ranks, 1);
    EXPECT_EQ(std::accumulate(of_rank.begin(), of_rank.end(), int64_t{0}), of_all);
  });
}

TEST(SharedTrainings, ReadHalfOnEachOfTwoRanks) { expect_parts(2, "['tp']", 1); }

TEST(SharedTrainings, ReadAQuarterOnEachOfTwoByTwoRanks) {
  expect_parts(4, "['ddp', { use = 'tp', size = 2 }]", 2);
}

// The second rank's disk has lost the shard after the launch was checked.
TEST(SharedTrainings, EndOnEveryRankWithTheErrorOfOne) {
  test::on_ranks(2, [&](const Rank& me) {
    const auto run = prepared_live("['tp']", 1);
    Rank::alone();
    encoded(*run);
    if (me.rank == 1) fs::remove(run->of("shards") / "shard-000000.tar");
    me.launched();
    EXPECT_THAT(test::refusal([&] { trained(*run, me.rank == 0); }), testing::StartsWith("rank 1: "));
  });
}

}  // namespace
}  // namespace kinora::core
