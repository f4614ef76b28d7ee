// Compares what train-tokenizer and encode compute on real clips with the mathematics written out here.
#include <cmath>
#include <cstdlib>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/run/job.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

TEST(TextEncoder, CutsACaptionAndFillsItUpWithZeros) {
  const auto run = prepared();
  JobContext context = run->context("latents");
  const auto embedding = [&](int64_t max_tokens, bool pad) {
    JobSpec spec = run->spec("latents");
    spec.options["max_tokens"] = max_tokens;
    spec.options["pad_text"] = pad;
    return TextEncoder(context, spec)(kCaptions.at("a"));
  };
  const at::Tensor whole = embedding(32, false), padded = embedding(32, true);
  const int64_t n = whole.size(0);
  ASSERT_GT(n, 2);
  EXPECT_TRUE(at::equal(embedding(2, false), whole.narrow(0, 0, 2)));
  EXPECT_EQ(padded.size(0), 32);
  EXPECT_TRUE(at::equal(padded.narrow(0, 0, n), whole));
  EXPECT_EQ(padded.slice(0, n).abs().max().item<float>(), 0);
}

// The input of Wan's image to video (diffusers' WanImageToVideoPipeline.prepare_latents): the encoded first
// frame and grey frames, after as many mask channels as a latent frame has frames.
TEST(EncodeJob, CachesTheFirstFrameFollowedByGrey) {
  const at::NoGradGuard off;
  const auto run = prepared({{"latents", "first_frame = true"}});
  encoded(*run);
  const LatentData data(run->of("latents"));
  const auto item = data.item(1);
  at::Tensor grey = window("a", 4);
  grey.slice(2, 1).zero_();
  const at::Tensor want = data.facts().scale.normalise(run->tokenizer("tokenizer")->encode(grey)[0]);
  const at::Tensor got = item.more.at("condition");
  const int64_t time = (kFrames - 1) / (want.size(1) - 1);
  ASSERT_EQ(got.size(0), time + 2);
  EXPECT_LT(worst(got.narrow(0, time, 2), want), 1e-5);
  EXPECT_GT(worst(got.narrow(0, time, 2), item.latent), 1e-2);
  const at::Tensor mask = got.narrow(0, 0, time);
  EXPECT_EQ(mask.select(1, 0).min().item<float>(), 1);
  EXPECT_EQ(mask.slice(1, 1).abs().max().item<float>(), 0);
}

TEST(EncodeJob, CachesEveryWindowOfEveryClipAndItsStatistics) {
  const at::NoGradGuard off;
  const auto run = prepared();
  const json summary = encoded(*run);
  EXPECT_EQ(summary.at("samples"), 4);
  EXPECT_EQ(summary.at("clips"), 4);
  EXPECT_EQ(summary.at("too_short"), 1);
  EXPECT_EQ(summary.at("failed"), 1) << "a clip that cannot be decoded fails alone";

  const LatentCache cache(run->of("latents") / "latents.h5");
  EXPECT_THAT(cache.keys(), testing::ElementsAre("a@0", "a@4", "c@0", "c@4"));
  const auto tokenizer = run->tokenizer("tokenizer");
  JobContext context = run->context("latents");
  TextEncoder encoder(context, run->spec("latents"));
  std::vector<at::Tensor> latents;
  for (const auto& key : cache.keys()) {
    const auto got = cache.read(key);
    const at::Tensor want = tokenizer->encode(window(key.substr(0, 1), std::stoll(key.substr(2))))[0];
    EXPECT_LT(worst(got.at("latent"), want), 1e-5) << key;
    EXPECT_EQ(worst(got.at("text"), encoder(kCaptions.at(key.substr(0, 1)))), 0) << key;
    latents.push_back(want.to(at::kDouble));
  }
  EXPECT_GT(worst(latents[0], latents[1]), 1e-2) << "windows that are equal would prove nothing";
  const at::Tensor all = at::cat(latents, 1).flatten(1);
  const LatentData data(run->of("latents"));
  EXPECT_EQ(data.facts().shape, latents[0].sizes().vec());
  EXPECT_EQ(data.facts().text_size, 12);
  EXPECT_DOUBLE_EQ(data.facts().fps, 3);
  for (int64_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(data.facts().scale.mean[static_cast<size_t>(c)], all[c].mean().item<double>(), 1e-5);
    EXPECT_NEAR(data.facts().scale.std[static_cast<size_t>(c)], all[c].std(false).item<double>(), 1e-5);
  }
  // As training reads them: mean 0 and deviation sigma_data in every channel, over all latents.
  std::vector<at::Tensor> scaled;
  for (int64_t i = 0; i < data.size(); ++i) scaled.push_back(data.item(i).latent.to(at::kDouble));
  const at::Tensor flat = at::cat(scaled, 1).flatten(1);
  EXPECT_LT(flat.mean(1).abs().max().item<double>(), 1e-4);
  EXPECT_LT(worst(flat.std(1, false), at::full({2}, 0.5)), 1e-4);
  EXPECT_LT(worst(data.facts().scale.denormalise(data.item(0).latent), latents[0]), 1e-4);
}

std::string failure_of(const std::string& job, const std::string& lines) {
  const auto run = prepared({{job, lines}});
  JobContext context = run->context(job);
  return test::refusal([&] { test::run_job(context); });
}

TEST(EncodeJob, LeavesOutAClipThatIsCutOffOrBroken) {
  for (const bool cut : {true, false}) {
    const auto run = prepared();
    const fs::path clip = run->folder() / "fields/a.mp4";
    auto bytes = read_bytes(clip);
    const size_t at = bytes.size() * 6 / 10;
    cut ? bytes.resize(at) : (void)std::fill(bytes.begin() + at, bytes.begin() + at + bytes.size() / 5, 'x');
    std::ofstream(clip, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_EQ(
        std::system(fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.* b.* c.* d.*",
                                clip.parent_path().string(), run->of("shards").string())
                        .c_str()),
        0);
    EXPECT_EQ(encoded(*run).at("failed"), 2) << (cut ? "cut off" : "broken");
  }
}

// That of a counts for all.
TEST(EncodeJob, SaysHowManyClipsHaveAnotherRate) {
  ASSERT_TRUE(start_log("warn"));
  const auto said = [](const std::string& signals, double rate) {
    const auto run = prepared({{"latents", signals}},
                              {{"a", json::object({{"fps", 30}})}, {"c", json::object({{"fps", rate}})}});
    testing::internal::CaptureStderr();
    encoded(*run);
    EXPECT_EQ(LatentFacts::of_folder(run->of("latents")).fps, 30.0 / kEvery);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said("", 12), testing::HasSubstr("its latents count as 3.75 frames per second, the rate of the "
                                               "first clip, but 1 of 2 clips has 1.5: "));
  for (const auto& log : {said("", 29.97), said("signals = ['fps']\n", 12)})
    EXPECT_THAT(log, testing::Not(testing::HasSubstr("frames per second"))) << log;
}

TEST(EncodeJob, BringsAllChannelsToOneDeviationIfAsked) {
  const auto deviations = [](const std::string& scale) {
    const auto run = prepared({{"latents", "scale = '" + scale + "'\n"}});
    encoded(*run);
    return LatentData(run->of("latents")).facts().scale.std;
  };
  const auto each = deviations("channel"), all = deviations("latent");
  ASSERT_EQ(each.size(), 2u);
  EXPECT_GT(std::abs(each[0] / each[1] - 1), 1e-3);
  const double together = std::sqrt((each[0] * each[0] + each[1] * each[1]) / 2);
  for (const double found : all) EXPECT_NEAR(found / together, 1, 1e-12);
}

TEST(EncodeJob, OnTheCpuByNameIsTheSameAsByItself) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "auto is this machine's GPU";
  const auto by_name = prepared({{"latents", "device = 'cpu'\n"}}), by_itself = prepared();
  encoded(*by_name);
  encoded(*by_itself);
  const LatentCache a(by_name->of("latents") / "latents.h5"), b(by_itself->of("latents") / "latents.h5");
  ASSERT_EQ(a.keys(), b.keys());
  for (const auto& key : a.keys())
    for (const char* name : {"latent", "text"})
      EXPECT_TRUE(at::equal(a.read(key).at(name), b.read(key).at(name)));
}

TEST(EncodeJob, RefusesADeviceThatCannotBeHad) {
  EXPECT_THAT(failure_of("latents", "device = 'gpu'\n"),
              testing::HasSubstr("give auto, cpu, cuda or cuda:N"));
  if (why_no_gpu().empty()) return;
  EXPECT_THAT(failure_of("latents", "device = 'cuda'\n"),
              testing::HasSubstr("device 'cuda': " + why_no_gpu()));
}

TEST(TrainTokenizerJob, RefusesADeviceThatCannotBeHad) {
  EXPECT_THAT(failure_of("tokenizer", "device = 'gpu'\n"),
              testing::HasSubstr("give auto, cpu, cuda or cuda:N"));
  if (why_no_gpu().empty()) return;
  EXPECT_THAT(failure_of("tokenizer", "device = 'cuda'\n"),
              testing::HasSubstr("device 'cuda': " + why_no_gpu()));
}

TEST(EncodeJob, SaysWhyNoClipIsOfUse) {
  const auto run = prepared();
  fs::remove(run->of("shards") / "shard-000000.tar");
  const std::string command =
      fmt::format("cd '{}/fields' && tar --format=ustar -cf '{}/shard-000000.tar' b.mp4 b.txt d.mp4 d.txt",
                  run->folder().string(), run->of("shards").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  try {
    encoded(*run);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "none of 2 clips is usable: 1 have fewer than 9 frames, 1 cannot be decoded; "
                 "lower frames, or see the "
                 "warnings above");
  }
}

// The first step's errors are those of the initial weights on the clips and starts that (seed, n) selects.
TEST(TrainTokenizerJob, ReconstructsCropsAtRandomStarts) {
  constexpr int64_t kBatch = 6;
  const auto run =
      prepared({{"tokenizer",
                 "steps = 1\nbatch = 6\nwarmup = 0\nschedule = 'constant'\nema = 0\nl1 = 0.7\nmse = 0.3\n"
                 "weights = 'FOLDER/start.safetensors'"}});
  const auto network = run->tokenizer("tokenizer");
  ScratchRun::save(*network, run->folder() / "start.safetensors");
  JobContext context = run->context("tokenizer");
  test::run_job(context);
  const at::NoGradGuard off;
  const std::vector<std::string> usable = {"a", "c"};
  double l1 = 0, mse = 0;
  std::set<int64_t> starts;
  for (int64_t n = 0; n < kBatch; ++n) {
    const std::string& key = usable[static_cast<size_t>(shuffled(n, 2, kSeed))];
    const double u = sample_uniform({1}, kSeed, n, "tokenizer.start").item<double>();
    const auto first = static_cast<int64_t>(std::floor(u * static_cast<double>(16 - kFrames + 1)));
    starts.insert(first);
    const at::Tensor video = window(key, first);
    const at::Tensor error = (network->decode(network->encode(video)) - video).to(at::kDouble);
    l1 += error.abs().mean().item<double>() / kBatch;
    mse += error.square().mean().item<double>() / kBatch;
  }
  EXPECT_GT(starts.size(), 2U);
  const json line = run->metrics("tokenizer").at(0);
  EXPECT_NEAR(line.at("l1").get<double>() / l1, 1, 1e-4);
  EXPECT_NEAR(line.at("mse").get<double>() / mse, 1, 1e-4);
  EXPECT_NEAR(line.at("loss").get<double>() / (0.7 * l1 + 0.3 * mse), 1, 1e-4);

  // The reported quality is that of the written weights.
  network->load(run->of("tokenizer") / "weights.safetensors");
  double psnr = 0;
  for (const auto& key : usable) {
    const at::Tensor video = window(key, 0), made = network->decode(network->encode(video)).clamp(-1, 1);
    psnr += 10 * std::log10(4 / (made - video).square().mean().item<double>()) / 2;
  }
  EXPECT_NEAR(context.summary.at("psnr").get<double>(), psnr, 1e-3);
  const json outcome = {{"clips", 4}, {"used", 2}, {"too_short", 1}, {"failed", 1}};
  for (const auto& [name, n] : outcome.items()) EXPECT_EQ(context.summary.at(name), n) << name;
}

TEST(VideoJobs, ValidateTrainingsAtLevelsThatItsLossHas) {
  const auto validated = [](const std::string& loss, const std::string& more) -> json {
    const auto run = prepared(
        {{"dit", "loss = { use = '" + loss +
                     "' }\nsteps = 1\nbatch = 1\ntensorboard = false\nvalidation_every = 1\n" + more}});
    encoded(*run);
    try {
      JobContext context = run->context("dit");
      test::run_job(context);
    } catch (const Error& e) {
      return e.what();
    }
    return run->metrics("dit").at(0).at("validation").at("sigma");
  };
  EXPECT_EQ(validated("edm", ""), json({0.1, 0.5, 2.0}));
  EXPECT_EQ(validated("flow", ""), json({0.1 / 1.1, 0.5 / 1.5, 2.0 / 3.0}));
  EXPECT_EQ(validated("flow", "validation_sigmas = [0.5, 1.0]\n"), json({0.5, 1.0}));
  EXPECT_THAT(validated("flow", "validation_sigmas = [0.5, 2.0]\n").get<std::string>(),
              testing::HasSubstr("2 is not a noise level of this loss, which has 0 to 1"));
}

}  // namespace
}  // namespace kinora::core
