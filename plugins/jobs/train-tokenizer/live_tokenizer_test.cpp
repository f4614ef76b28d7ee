// A tokenizer that is trained from a table of data, on real clips, against the mathematics written out here.
#include <cmath>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/loading/data_order.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ClipKeys = std::set<std::string>;

JobSpec tokenizer_of_table(const ScratchRun& run) {
  JobSpec out = run.spec("tokenizer");
  out.data.emplace();
  out.data->path = run.of("shards").string();
  out.data->shuffle = 3;
  return out;
}

json trained_on_table(const ScratchRun& run) {
  const JobSpec spec = tokenizer_of_table(run);
  JobContext context(test::runtime(), run.run(), spec);
  test::run_job(context);
  return context.summary;
}

std::unique_ptr<ScratchRun> from_given_weights(const std::string& more) {
  auto run = prepared({{"tokenizer",
                        "steps = 1\nbatch = 6\nwarmup = 0\nschedule = 'constant'\nema = 0\ntensorboard = "
                        "false\nweights = 'FOLDER/start.safetensors'\n" +
                            more}});
  ScratchRun::save(*run->tokenizer("tokenizer"), run->folder() / "start.safetensors");
  return run;
}

// The window that a slot takes if these clips alone can be used.
at::Tensor window_of_slot(const ScratchRun& run, uint64_t slot, const ClipKeys& usable) {
  DataOrder order(*tokenizer_of_table(run).data, kSeed);
  const std::string key = order.key(slot, [&](const std::string& k) { return usable.contains(k); });
  const double u = sample_uniform({1}, kSeed, static_cast<int64_t>(slot), "window.start").item<double>();
  return window(key, static_cast<int64_t>(std::floor(u * static_cast<double>(16 - kFrames + 1))));
}

double mean_l1(Tokenizer& network, const ScratchRun& run, const ClipKeys& usable) {
  double out = 0;
  for (uint64_t slot = 0; slot < 6; ++slot) {
    const at::Tensor video = window_of_slot(run, slot, usable);
    out += (network.decode(network.encode(video)) - video).abs().to(at::kDouble).mean().item<double>() / 6;
  }
  return out;
}

double mean_psnr(Tokenizer& network, const ScratchRun& run, const std::vector<uint64_t>& slots,
                 const ClipKeys& usable) {
  double out = 0;
  for (const uint64_t slot : slots) {
    const at::Tensor video = window_of_slot(run, slot, usable),
                     made = network.decode(network.encode(video)).clamp(-1, 1);
    out += 10 * std::log10(4 / (made - video).square().mean().item<double>());
  }
  return out / static_cast<double>(slots.size());
}

TEST(TokenizerOfATable, TakesTheWindowsOfItsSlots) {
  const auto run = from_given_weights("");
  const json summary = trained_on_table(*run), line = run->metrics("tokenizer").at(0);
  const at::NoGradGuard off;
  const auto network = run->tokenizer("tokenizer");
  EXPECT_NEAR(line.at("l1").get<double>() / mean_l1(*network, *run, {"a", "c"}), 1, 1e-4);
  EXPECT_GE(line.at("data_wait").get<double>(), 0);
  std::ifstream in(run->of("tokenizer") / "metrics.prom");
  const std::string prom{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(prom, testing::HasSubstr("kinora_train_step{job=\"tokenizer\"} 1\n"));
  EXPECT_THAT(prom, testing::HasSubstr("kinora_data_too_short_total{job=\"tokenizer\"} 1\n"));
  // Without held-out clips the first of all are evaluated, which are those of an epoch here.
  network->load(run->of("tokenizer") / "weights.safetensors");
  EXPECT_NEAR(summary.at("psnr").get<double>(), mean_psnr(*network, *run, {0, 1, 2, 3}, {"a", "c"}), 1e-3);
  const json outcome = {{"clips", 4}, {"held_out", 0}, {"failed", 1}, {"too_short", 1}};
  for (const auto& [name, n] : outcome.items()) EXPECT_EQ(summary.at(name), n) << name;
}

json state_of_first_step(const ScratchRun& run) {
  std::ifstream in(run.of("tokenizer") / "checkpoints/step-000001/state.json");
  return json::parse(in);
}

// The run was interrupted after its first step, where three samples had failed: clip b and two others.
TEST(TokenizerOfATable, CountsFailedSamplesOnAfterAResume) {
  const auto run = from_given_weights("");
  trained_on_table(*run);
  json state = state_of_first_step(*run);
  ASSERT_EQ(state.at("lost").at("failed"), 1);
  state["lost"]["failed"] = 3;
  std::ofstream(run->of("tokenizer") / "checkpoints/step-000001/state.json") << state.dump();
  const auto continued = [&](int64_t max_failed) {
    JobSpec spec = tokenizer_of_table(*run);
    spec.options["steps"] = 2;
    spec.data->reading.max_failed = max_failed;
    JobContext context(test::runtime(), run->run(), spec);
    test::run_job(context);
    return context.summary;
  };
  EXPECT_THAT(test::refusal([&] { continued(2); }),
              ::testing::HasSubstr("samples cannot be used, more than max_failed = 2 allows"));
  EXPECT_EQ(continued(3).at("failed"), 3) << "clip b, which it meets again, counts once";
}

TEST(TokenizerOfATable, TrainsOnNoClipThatItIsEvaluatedOn) {
  ASSERT_LT(std::max(hash_share("c"), hash_share("d")), 0.2);
  ASSERT_GT(std::min(hash_share("a"), hash_share("b")), 0.2);
  const auto run = from_given_weights("validation = 0.2\n");
  const json summary = trained_on_table(*run);
  const at::NoGradGuard off;
  const auto network = run->tokenizer("tokenizer");
  EXPECT_NEAR(run->metrics("tokenizer").at(0).at("l1").get<double>() / mean_l1(*network, *run, {"a"}), 1,
              1e-4);
  DataOrder order(*tokenizer_of_table(*run).data, kSeed);
  std::vector<uint64_t> held_out;
  for (uint64_t slot = 0; slot < 4; ++slot)
    if (ClipKeys{"c", "d"}.contains(order.key(slot))) held_out.push_back(slot);
  ASSERT_EQ(held_out.size(), 2u);
  network->load(run->of("tokenizer") / "weights.safetensors");
  EXPECT_NEAR(summary.at("psnr").get<double>(), mean_psnr(*network, *run, held_out, {"c"}), 1e-3);
  EXPECT_EQ(summary.at("held_out"), 2);
  EXPECT_THAT(test::refusal([] { trained_on_table(*from_given_weights("validation = 1e-9\n")); }),
              ::testing::HasSubstr("leaves none of 4 samples to validation"));
}

TEST(TokenizerOfATable, ResumedEqualsUninterruptedBitForBit) {
  const auto start = [] {
    return prepared({{"tokenizer",
                      "steps = 4\nbatch = 2\naccumulate = 2\nwarmup = 0\ncheckpoint_every = 2\nkeep = 9\n"
                      "async_checkpoints = false\ntensorboard = false\nimage_share = 0.4\n"
                      "transforms = ['video.flip']\n"}});
  };
  const auto whole = start(), resumed = start();
  trained_on_table(*whole);
  const fs::path kept = fs::path("checkpoints") / "step-000002",
                 last = fs::path("checkpoints") / "step-000004";
  fs::create_directories(resumed->of("tokenizer") / "checkpoints");
  fs::copy(whole->of("tokenizer") / kept, resumed->of("tokenizer") / kept, fs::copy_options::recursive);
  trained_on_table(*resumed);
  for (const fs::path& file : {fs::path("weights.safetensors"), last / "optimizer.safetensors"}) {
    const auto a = read_tensors(whole->of("tokenizer") / file),
               b = read_tensors(resumed->of("tokenizer") / file);
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, t] : a) EXPECT_TRUE(at::equal(t, b.at(name))) << file << " " << name;
  }
  EXPECT_EQ(resumed->metrics("tokenizer").at(0).at("loss"), whole->metrics("tokenizer").at(2).at("loss"));
}

// The memory option allows the windows of four slots.
TEST(TokenizerOfATable, StartsWithThePrincipalComponentsOfTheFirstSlots) {
  const auto run = prepared(
      {{"tokenizer",
        "steps = 1\nbatch = 2\nwarmup = 0\nema = 0\nlearning_rate = 1e-30\nweight_decay = 0\ntensorboard = "
        "false\nstart = 'principal'\nmemory = '1 MiB'\ntokenizer = { use = 'cosmos', latent_channels = 24, "
        "spatial_compression_ratio = 4, encoder_block_out_channels = [50, 50], decode_block_out_channels = "
        "[50, 50] }\n"}});
  trained_on_table(*run);
  ASSERT_EQ((1 << 18) / (12 * kFrames * 16 * 32), 4);
  std::vector<at::Tensor> windows;
  for (uint64_t slot = 0; slot < 4; ++slot) windows.push_back(window_of_slot(*run, slot, {"a", "c"}));
  const auto made = run->tokenizer("tokenizer"), fitted = run->tokenizer("tokenizer");
  for (const auto& network : {made.get(), fitted.get()})
    network->load(run->of("tokenizer") / "weights.safetensors");
  const auto off = [&] { return worst(made->encode(windows[0]), fitted->encode(windows[0])); };
  fitted->fit(windows[0]);
  EXPECT_GT(off(), 0.1);
  fitted->fit(at::cat(windows));
  EXPECT_LT(off(), 1e-4);
}

}  // namespace
}  // namespace kinora::core
