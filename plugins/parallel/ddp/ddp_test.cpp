// Data parallelism against one process in float64: the gradient of every parameter, and the weights after
// steps of the trainer.
#include <algorithm>
#include <cstdlib>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/context/noise.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/media/latents.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using test::Rank;
using test::ScratchRun;

constexpr int64_t kBatch = 4;
const std::map<std::string, std::string> kJobs = {
    {"dit",
     "precision = 'fp64'\nparallel = ['ddp']\nsteps = 3\nbatch = 4\nwarmup = 0\nlearning_rate = 0.01\neps = "
     "1e-4\nema = 0\n"
     "weights = 'FOLDER/start.safetensors'\n"}};

// As a launcher does.
void place(const Rank& me, const std::string& rendezvous) {
  setenv("RANK", std::to_string(me.rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(me.size).c_str(), 1);
  setenv("KINORA_RENDEZVOUS", rendezvous.c_str(), 1);
  setenv("KINORA_TIMEOUT_MS", "30000", 1);
}

double worst(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// Gradients of samples [first, first + count) of a batch, by a loss that divides by the whole batch.
void backward(core::Network& network, int64_t first, int64_t count) {
  const Tensor latent = core::sample_noise(at::empty({count, 2, 2, 2, 4}, at::kDouble), 5, first, "latent"),
               text = core::sample_noise(at::empty({count, 3, 12}, at::kDouble), 5, first, "text"),
               weight = core::sample_noise(latent, 5, first, "weight");
  const Tensor out = network
                         .forward({{"latent", latent},
                                   {"timestep", core::sample_uniform({count}, 5, first, "time")},
                                   {"text", text}})
                         .at(0);
  ((out * weight).square().sum() / kBatch).backward();
}

TEST(Ddp, SumsTheGradientOfEveryParameterOverTheRanks) {
  for (const int size : {1, 2, 4})
    test::on_ranks(size, [](const Rank& me) {
      place(me, me.file());
      const ScratchRun run(kJobs);
      core::JobContext context = run.context("dit", false);
      const core::Parallelism parallel(context);
      ASSERT_EQ(parallel.data_size(), me.size);
      ASSERT_EQ(parallel.data_rank(), me.rank);
      ASSERT_TRUE(parallel.links().empty()) << "it is an axis and nothing else";
      const auto mine = run.network("dit", "model", at::kDouble),
                 whole = run.network("dit", "model", at::kDouble);
      const int64_t each = kBatch / me.size;
      backward(*mine, me.rank * each, each);
      backward(*whole, 0, kBatch);
      auto& leaves = mine->chain().leaves();
      size_t vectors = 0;
      for (size_t i = 0; i < leaves.size(); ++i) {
        const Tensor want = whole->chain().leaves()[i].tensor.grad();
        if (me.size > 1) {
          EXPECT_GT(worst(leaves[i].tensor.grad(), want), 1e-3)
              << leaves[i].name << ": a sum that changes nothing shows nothing";
        }
        vectors += want.dim() == 1;
      }
      EXPECT_GT(vectors, 2U);
      parallel.sum_gradients(mine->chain().parameters(), leaves);
      for (size_t i = 0; i < leaves.size(); ++i)
        EXPECT_LT(worst(leaves[i].tensor.grad(), whole->chain().leaves()[i].tensor.grad()), 1e-10)
            << leaves[i].name;
      EXPECT_DOUBLE_EQ(parallel.sum({me.rank + 1.0}).at(0), me.size * (me.size + 1) / 2);
    });
}

// A training job of one process or of several, from the same latents and weights; what it wrote is the first
// rank's.
void train(const ScratchRun& run, const Rank& me, const fs::path& copy_weights_to) {
  at::manual_seed(7);
  fs::create_directories(run.of("latents"));
  core::LatentCacheWriter cache(run.of("latents") / "latents.h5", "{}");
  for (int i = 0; i < 6; ++i)
    cache.add(std::to_string(i), {{"latent", at::randn({2, 2, 2, 4})}, {"text", at::randn({1 + i % 3, 12})}});
  cache.commit();
  core::LatentFacts facts;
  facts.scale = {{0.1, -0.2}, {1.5, 0.7}, 0.5};
  facts.shape = {2, 2, 2, 4};
  facts.text_size = 12;
  std::ofstream(run.of("latents") / "latents.json") << facts.to_json().dump();
  ScratchRun::save(*run.network("dit", "model"), run.folder() / "start.safetensors");
  core::JobContext context = run.context("dit", me.rank == 0);
  core::run_train(context);
  if (me.rank == 0) fs::copy_file(run.of("dit") / "weights.safetensors", copy_weights_to);
}

TEST(Ddp, EqualsOneProcess) {
  for (const int size : {1, 2, 4})
    test::on_ranks(size, [](const Rank& me) {
      test::equals_one_process(me, {.parallel = "['ddp']", .each = 2, .micro = 2});
    });
}

TEST(Ddp, TrainsAsOneProcessDoes) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      const fs::path folder = me.folder;
      const ScratchRun together(kJobs), alone(kJobs);
      place(me, me.file());
      train(together, me, folder / "together.safetensors");
      if (me.rank != 0) return;
      place({0, 1, me.folder, 0}, "");
      train(alone, {0, 1, me.folder, 0}, folder / "alone.safetensors");
      const auto a = core::read_tensors(folder / "together.safetensors"),
                 b = core::read_tensors(folder / "alone.safetensors");
      ASSERT_EQ(a.size(), b.size());
      for (const auto& [name, want] : b) EXPECT_LT(worst(a.at(name), want), 1e-10) << name;
      const auto lines = together.metrics("dit"), wanted = alone.metrics("dit");
      ASSERT_EQ(lines.size(), 3U);
      for (size_t i = 0; i < 3; ++i)
        for (const char* key : {"loss", "gradient_norm"})
          EXPECT_NEAR(lines[i].at(key).get<double>() / wanted[i].at(key).get<double>(), 1, 1e-10) << key << i;
    });
}

}  // namespace
}  // namespace kinora
