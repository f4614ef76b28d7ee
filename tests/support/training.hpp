// A small training job on several processes or on one, for tests that compare them.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {

// Runs the job `dit` of a run on this rank, from latents with the given number of frames and weights that are
// equal on every rank.
inline void train(const ScratchRun& run, const Rank& me, int64_t frames = 2) {
  at::manual_seed(7);
  std::filesystem::create_directories(run.of("latents"));
  core::LatentCacheWriter cache(run.of("latents") / "latents.h5", "{}");
  for (int i = 0; i < 6; ++i)
    cache.add(fmt::format("clip-{:04}", i),
              {{"latent", at::randn({2, frames, 2, 4})}, {"text", at::randn({1 + i % 3, 12})}});
  cache.commit();
  core::LatentFacts facts;
  facts.scale = {{0.1, -0.2}, {1.5, 0.7}, 0.5};
  facts.shape = {2, frames, 2, 4};
  facts.text_size = 12;
  std::ofstream(run.of("latents") / "latents.json") << facts.to_json().dump();
  ScratchRun::save(*run.model("dit"), run.folder() / "start.safetensors");
  core::JobContext context = run.context("dit", me.rank == 0);
  run_job(context);
}

// Log lines of the job `dit` with three steps, on the first rank; `parallel` as in a job, `more`: further
// lines of the job.
inline std::vector<core::json> trained(const Rank& me, const std::string& parallel, const std::string& more) {
  const ScratchRun run({{"dit", "precision = 'fp64'\nparallel = " + parallel +
                                    "\nsteps = 3\nwarmup = 0\nlearning_rate = 0.01\noptimizer = { use = "
                                    "'adamw', eps = 1e-4 }\nema = 0\n"
                                    "weights = 'FOLDER/start.safetensors'\n" +
                                    more}});
  train(run, me);
  return me.rank == 0 ? run.metrics("dit") : std::vector<core::json>();
}

}  // namespace kinora::test
