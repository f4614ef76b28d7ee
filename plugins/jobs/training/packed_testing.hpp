// A training on windows of several sizes, videos and pictures, from a table of data.
#pragma once
#include "plugins/jobs/training/video_jobs_testing.hpp"

namespace kinora::core {

// The shard of video_jobs_testing.hpp with two pictures, `e` and `f`, and the trained job's start weights.
// dit: further lines of that job; precision, steps: as in it. latent_cache: as in `latents`; runs that share
// it decode and encode each window once.
inline std::unique_ptr<ScratchRun> prepared_for_rows(const std::string& dit,
                                                     const std::string& precision = "'fp64'",
                                                     const fs::path& latent_cache = {}, size_t steps = 2) {
  // b and the pictures are probed.
  const json facts{{"frames", 40}, {"width", 320}, {"height", 180}};
  auto run = prepared(
      {{"latents",
        "input = { path = 'shards', shuffle = 4 }\nsizes = ['1x16x16', '9x32x16']\nscale_windows = 8\nevery "
        "= 1\n"
        "tokenizer = { use = 'cosmos', latent_channels = 2, encoder_block_out_channels = [4, 8, 8], "
        "decode_block_out_channels = [4, 8, 8] }\ntokenizer_weights = "
        "'FOLDER/tokenizer/weights.safetensors'\n" +
            (latent_cache.empty() ? "" : "latent_cache = '" + latent_cache.string() + "'\n")},
       {"dit",
        "loss = { use = 'flow' }\nweights = 'FOLDER/start.safetensors'\nprecision = " + precision +
            fmt::format("\nsteps = {}\nwarmup = 0\n", steps) +
            "learning_rate = 0.01\noptimizer = { use = 'adamw', eps = 1e-4 }\nema = 0\ntext_dropout = 0.0\n"
            "tensorboard = false\n" +
            dit}},
      {{"a", facts}, {"c", facts}, {"d", facts}});
  const fs::path fields = run->folder() / "fields";
  for (const auto& [key, text] : {std::pair("e", "sea"), {"f", "red"}}) {
    fs::copy_file(fs::path(KINORA_TEST_DATA) / "oracle/cosmos2_v2w/first.png",
                  fields / (std::string(key) + ".png"));
    std::ofstream(fields / (std::string(key) + ".txt")) << text;
  }
  const std::string command =
      fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.* b.* c.* d.* e.* f.*",
                  fields.string(), run->of("shards").string());
  EXPECT_EQ(std::system(command.c_str()), 0);
  at::manual_seed(7);
  ScratchRun::save(*run->model("dit"), run->folder() / "start.safetensors");
  return run;
}

}  // namespace kinora::core
