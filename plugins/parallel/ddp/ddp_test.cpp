// Data parallelism against one process in float64: the gradient of every parameter, and the weights after
// steps of the trainer.
#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/noise.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/training.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
using test::ScratchRun;

constexpr int64_t kBatch = 4;
const std::map<std::string, std::string> kJobs = {
    {"dit",
     "precision = 'fp64'\nparallel = ['ddp']\nsteps = 3\nbatch = 4\nwarmup = 0\nlearning_rate = 0.01\n"
     "optimizer = { use = 'adamw', eps = 1e-4 }\nema = 0\n"
     "weights = 'FOLDER/start.safetensors'\n"}};

double worst(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// Gradients of samples [first, first + count) of a batch, for a loss that divides by the whole batch.
void backward(core::Model& network, int64_t first, int64_t count) {
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
      me.launched();
      const ScratchRun run(kJobs);
      core::JobContext context = run.context("dit", false);
      const core::Parallelism parallel(context);
      ASSERT_EQ(parallel.data_size(), me.size);
      ASSERT_EQ(parallel.data_rank(), me.rank);
      ASSERT_TRUE(parallel.links().empty()) << "it is an axis and nothing else";
      const auto mine = run.model("dit", "model", at::kDouble),
                 whole = run.model("dit", "model", at::kDouble);
      const int64_t each = kBatch / me.size;
      backward(*mine, me.rank * each, each);
      backward(*whole, 0, kBatch);
      auto& leaves = mine->chain().leaves();
      size_t vectors = 0;
      for (size_t i = 0; i < leaves.size(); ++i) {
        const Tensor want = whole->chain().leaves()[i].tensor.grad();
        if (me.size > 1) {
          EXPECT_GT(worst(leaves[i].tensor.grad(), want), 1e-3)
              << leaves[i].name << ": a sum without effect proves nothing";
        }
        vectors += want.dim() == 1;
      }
      EXPECT_GT(vectors, 2U);
      parallel.sum_gradients(mine->chain().parameters(), leaves);
      for (size_t i = 0; i < leaves.size(); ++i)
        EXPECT_LT(worst(leaves[i].tensor.grad(), whole->chain().leaves()[i].tensor.grad()), 1e-10)
            << leaves[i].name;
      EXPECT_DOUBLE_EQ(parallel.sum({me.rank + 1.0}, /*of_stages=*/true).at(0), me.size * (me.size + 1) / 2);
    });
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
      const ScratchRun together(kJobs), alone(kJobs);
      me.launched();
      test::train(together, me);
      if (me.rank != 0) return;
      Rank::alone();
      test::train(alone, {0, 1, me.folder, 0});
      const auto a = core::read_tensors(together.of("dit") / "weights.safetensors"),
                 b = core::read_tensors(alone.of("dit") / "weights.safetensors");
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
