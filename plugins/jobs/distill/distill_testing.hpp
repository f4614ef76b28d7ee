// A small distill job, `few`, of a student whose weights and latents are the same in each run.
#pragma once
#include <fstream>
#include <map>
#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core::few_steps {

namespace fs = std::filesystem;
using test::ScratchRun;

// Four latent frames in chunks of one.
inline const std::string kStudent =
    "teacher_forcing = true\nwindow = 2\nsink = 1\nloss = 'flow'\n"
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\n";

inline const std::string kDistill =
    "\n[[job]]\nname = 'few'\nkind = 'distill'\ninput = ['latents', 'dit']\nbatch = 2\nlearning_rate = 0.01\n"
    "critic_learning_rate = 0.02\nema = 0.9\noptimizer = { use = 'adamw', beta1 = 0.0, beta2 = 0.0, eps = "
    "1e-3 }\n"
    "critic_optimizer = { use = 'adamw', beta1 = 0.0, eps = 1e-3 }\n"
    "sampler = { use = 'flow-renoise', timesteps = [1000, 700, 400], shift = 3.0 }\ncheckpoint_every = "
    "1\nkeep = 100\n"
    "tensorboard = false\nasync_checkpoints = false\nprecision = 'fp64'\n";

// text: of all samples; undefined: each has its own.
inline void write_latents(const fs::path& folder, int64_t samples = 3, const at::Tensor& text = {}) {
  fs::create_directories(folder);
  LatentCacheWriter cache(folder / "latents.h5", "{}");
  for (int64_t i = 0; i < samples; ++i)
    cache.add(std::to_string(i),
              {{"latent", sample_noise(at::empty({1, 2, 4, 2, 4}), 7, i, "latent")[0]},
               {"text", text.defined() ? text : sample_noise(at::empty({1, i + 1, 12}), 7, i, "text")[0]}});
  cache.commit();
  LatentFacts facts;
  facts.scale = {{0.25, -0.5}, {2, 0.5}, 1};
  facts.shape = {2, 4, 2, 4};
  facts.text_size = 12;
  std::ofstream(folder / "latents.json") << facts.to_json().dump();
}

inline std::unique_ptr<ScratchRun> distillation(const std::string& lines,
                                                const std::string& student = kStudent) {
  auto run = std::make_unique<ScratchRun>(
      std::map<std::string, std::string>{{"dit", student}, {"film", kDistill + lines}});
  EXPECT_EQ(run->problems(), "");
  write_latents(run->of("latents"));
  ScratchRun::save(*run->model("dit"), run->of("dit") / "weights.safetensors");
  return run;
}

// writes: this process writes the metrics.
inline void distilled(const ScratchRun& run, bool writes = true) {
  JobContext context = run.context("few", writes);
  test::run_job(context);
}

}  // namespace kinora::core::few_steps
