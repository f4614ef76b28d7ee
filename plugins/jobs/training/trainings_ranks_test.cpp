// Whole trainings on several ranks against one process: everything that is summed besides gradients.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "core/run/job.hpp"
#include "plugins/jobs/training/packed_testing.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/training.hpp"

namespace kinora::core {
namespace {

using test::Rank;

void expect_equal(const json& here, const json& alone, double bound, const std::string& where) {
  if (alone.is_number_float()) {
    EXPECT_NEAR(here.get<double>(), alone.get<double>(), bound * std::abs(alone.get<double>())) << where;
  } else if (alone.is_structured()) {
    ASSERT_EQ(here.size(), alone.size()) << where;
    for (const auto& [key, value] : alone.items()) {
      const auto& its = here.is_array() ? here.at(std::stoul(key)) : here.at(key);
      expect_equal(its, value, bound, where + "." + key);
    }
  }
}

// The last lines of metrics.jsonl that have this entry.
json last(const std::vector<json>& lines, const std::string& name) {
  json found;
  for (const auto& line : lines)
    if (line.contains(name)) found = line;
  return found;
}

TEST(Trainings, ValidateAsOneProcessUnderEveryStrategy) {
  const std::string more =
      "batch = 4\naccumulate = 2\nvalidation_every = 3\nvalidation_samples = 3\n"
      "validation_sigmas = [0.3, 1.0]\n";
  for (const char* parallel : {"['ddp']", "['fsdp']", "['tp']", "['cp-ulysses']", "['cp-ring']", "['pp']"})
    test::on_ranks(2, [&](const Rank& me) {
      me.launched();
      const auto together = test::trained(me, parallel, more);
      if (me.rank != 0) return;
      Rank::alone();
      const auto alone = test::trained({0, 1, me.folder, 0}, "['single']", more);
      ASSERT_TRUE(last(alone, "validation").is_object());
      for (const char* name : {"validation", "validation_loss", "loss", "gradient_norm"})
        expect_equal(last(together, name).at(name), last(alone, name).at(name), 1e-10,
                     std::string(parallel) + " " + name);
    });
}

// Windows of several sizes: which rank has which samples changes nothing.
void expect_sizes_as_one_process(const std::string& how, const std::vector<std::string>& strategies) {
  const auto lines = [&](const Rank& me, const std::string& parallel) {
    const auto run = prepared_for_rows("batch = 8\n" + how + "parallel = " + parallel + "\n");
    Rank::alone();
    encoded(*run);
    if (me.size > 1) me.launched();
    JobContext context = run->context("dit", me.rank == 0);
    test::run_job(context);
    return me.rank == 0 ? run->metrics("dit") : std::vector<json>();
  };
  for (const auto& parallel : strategies)
    test::on_ranks(2, [&](const Rank& me) {
      const auto together = lines(me, parallel);
      if (me.rank != 0) return;
      const auto alone = lines({0, 1, me.folder, 0}, "['single']");
      for (size_t i = 0; i < alone.size(); ++i)
        for (const char* name : {"loss", "gradient_norm"})
          expect_equal(together.at(i).at(name), alone.at(i).at(name), 1e-10, parallel + name);
    });
}

TEST(Trainings, PackRowsAsOneProcess) {
  expect_sizes_as_one_process("accumulate = 2\n", {"['ddp']", "['tp']", "['cp-ring']", "['pp']"});
}

TEST(Trainings, FillBucketsAsOneProcess) {
  expect_sizes_as_one_process("batches = 'buckets'\naccumulate = 4\n", {"['ddp']", "['tp']", "['pp']"});
}

// The critic's weight is a ratio of norms, which is not the mean of the ranks' ratios.
TEST(Trainings, WeighTheCriticAsOneProcess) {
  const std::string job =
      "steps = 2\nbatch = 4\nwarmup = 0\nschedule = 'constant'\nema = 0\ntensorboard = false\n"
      "checkpoint_every = 1000\nweights = 'FOLDER/start.safetensors'\ncritic_weight = 0.6\n"
      "critic = { use = 'patch-discriminator', channels = 4, layers = 2 }\n";
  const auto lines = [&](const Rank& me, const std::string& parallel) {
    const auto run = prepared({{"tokenizer", job + "parallel = " + parallel + "\n"}});
    at::manual_seed(7);
    ScratchRun::save(*run->tokenizer("tokenizer"), run->folder() / "start.safetensors");
    JobContext context = run->context("tokenizer", me.rank == 0);
    test::run_job(context);
    return me.rank == 0 ? run->metrics("tokenizer") : std::vector<json>();
  };
  test::on_ranks(2, [&](const Rank& me) {
    me.launched();
    const auto together = lines(me, "['ddp']");
    if (me.rank != 0) return;
    Rank::alone();
    const auto alone = lines({0, 1, me.folder, 0}, "['single']");
    for (const char* name : {"loss", "critic", "adversarial", "adversarial_weight", "gradient_norm"})
      expect_equal(last(together, name).at(name), last(alone, name).at(name), 1e-4, name);
  });
}

// The clips are divided among the ranks, and the scores' states merged: the means do not depend on the number
// of ranks, to the last bit; the statistics of features are merged pairwise.
TEST(Trainings, ScoreReconstructionsAsOneProcess) {
  const std::string job =
      "steps = 1\nbatch = 4\nwarmup = 0\nema = 0\nlearning_rate = 1e-30\nweight_decay = 0\n"
      "tensorboard = false\nweights = 'FOLDER/start.safetensors'\n";
  const auto summary = [&](const std::string& parallel, const fs::path& features, bool writes) {
    const auto run = prepared({{"tokenizer", fmt::format("{}parallel = {}\nfeatures_weights = '{}'\n", job,
                                                         parallel, features.string())}});
    at::manual_seed(7);
    ScratchRun::save(*run->tokenizer("tokenizer"), run->folder() / "start.safetensors");
    JobContext context = run->context("tokenizer", writes);
    test::run_job(context);
    return context.summary;
  };
  for (const char* parallel : {"['ddp']", "['fsdp']"})
    test::on_ranks(2, [&](const Rank& me) {
      const fs::path features = fs::path(me.folder) / "features.pt";
      if (me.rank == 0) {
        torch::jit::Module script("of_a_test");
        script.define("def forward(self, x: Tensor):\n    return x.mean([2, 3, 4])\n");
        script.save(features.string());
      }
      me.meet("features");
      me.launched();
      const json together = summary(parallel, features, me.rank == 0);
      Rank::alone();
      const json alone = summary("['single']", features, true);
      for (const char* name : {"psnr", "ssim"})
        EXPECT_EQ(together.at(name), alone.at(name)) << parallel << name;
      expect_equal(together.at("frechet_distance"), alone.at("frechet_distance"), 1e-6, parallel);
      EXPECT_GT(alone.at("frechet_distance").get<double>(), 0);
    });
}

// Each rank decodes and mirrors the windows of its own slots.
TEST(Trainings, TakeATableOfDataAsOneProcess) {
  const std::string job =
      "steps = 3\nbatch = 4\nwarmup = 0\nema = 0\ntensorboard = false\ntransforms = ['video.flip']\n"
      "weights = 'FOLDER/start.safetensors'\n";
  const auto lines = [&](const std::string& parallel, bool writes) {
    const auto run = prepared({{"tokenizer", job + "parallel = " + parallel + "\n"}});
    at::manual_seed(7);
    ScratchRun::save(*run->tokenizer("tokenizer"), run->folder() / "start.safetensors");
    JobSpec spec = run->spec("tokenizer");
    spec.data.emplace();
    spec.data->path = run->of("shards").string();
    spec.data->shuffle = 3;
    JobContext context(test::runtime(), run->run(), spec, writes);
    test::run_job(context);
    return writes ? run->metrics("tokenizer") : std::vector<json>();
  };
  test::on_ranks(2, [&](const Rank& me) {
    me.launched();
    const auto together = lines("['ddp']", me.rank == 0);
    if (me.rank != 0) return;
    Rank::alone();
    const auto alone = lines("['single']", true);
    ASSERT_EQ(together.size(), 3u);
    for (size_t step = 0; step < 3; ++step)
      for (const char* name : {"loss", "l1", "gradient_norm"})
        expect_equal(together[step].at(name), alone.at(step).at(name), 1e-4, name);
  });
}

// Its layers open no sequence, so each rank would have the whole gradient, and the sum would be too large.
TEST(Trainings, CutNoTokenizer) {
  const auto refused = [](const std::string& name) {
    const auto run = prepared({{"tokenizer", "batch = 4\nparallel = ['" + name + "']\n"}});
    return test::refusal([&] {
      JobContext context = run->context("tokenizer", false);
      test::run_job(context);
    });
  };
  Rank{0, 2, "/tmp", 0}.launched();
  for (const char* name : {"tp", "cp-ulysses", "cp-ring", "pp"})
    EXPECT_THAT(refused(name), ::testing::HasSubstr("has no sequence that ranks along")) << name;
  Rank::alone();
}

}  // namespace
}  // namespace kinora::core
