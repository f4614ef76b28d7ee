// What train-tokenizer, encode and generate compute, on real clips, against the mathematics written out here.
#include <cmath>
#include <cstdlib>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/one_stage.hpp"
#include "core/torch/clips.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/latents.hpp"
#include "core/torch/noise.hpp"
#include "core/torch/text_encoder.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using test::ScratchRun;

constexpr uint64_t kSeed = 3;                            // of ScratchRun
constexpr int64_t kFrames = 9, kStride = 4, kEvery = 8;  // of its jobs
const std::map<std::string, std::string> kClips = {      // keys of the shard's samples, in its order
    {"a", "bbb_A.mp4"},
    {"c", "bbb_C.mp4"},
    {"d", "bbb_D.mp4"}};
const std::map<std::string, std::string> kCaptions = {
    {"a", "red sea"}, {"b", "blue"}, {"c", "blue sea red"}, {"d", "sea"}};

// Four clips: a and c have 16 frames, d has 6, and b is no video at all.
void write_shard(const ScratchRun& run) {
  const fs::path from = run.folder() / "fields";
  fs::create_directories(from);
  fs::create_directories(run.of("shards"));
  for (const auto& [key, file] : kClips)
    fs::copy_file(fs::path(KINORA_TEST_DATA) / file, from / (key + ".mp4"));
  std::ofstream(from / "b.mp4") << std::string(5000, 'x');
  for (const auto& [key, text] : kCaptions) std::ofstream(from / (key + ".txt")) << text;
  const std::string command = fmt::format(
      "cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.mp4 a.txt b.mp4 b.txt c.mp4 c.txt d.mp4 "
      "d.txt",
      from.string(), run.of("shards").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
}

// uint8 [T, H, W, 3], by the reading stage with these options.
at::Tensor decoded(const std::vector<char>& bytes, const json& options) {
  const OneStage read(test::runtime(), "video.read", options);
  kinora::Sample sample("x");
  sample.set("mp4", std::string(bytes.begin(), bytes.end()));
  const kinora::Sample made = read(sample);
  const kinora_dl_tensor* t = made.tensor("frames");
  return at::from_blob(static_cast<char*>(t->data) + t->byte_offset, at::IntArrayRef(t->shape, 4), at::kByte)
      .clone();
}
std::vector<char> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A clip as the jobs scale it, float32 [3, T, H, W] in [-1, 1].
at::Tensor clip(const std::string& key) {
  const auto frames = decoded(bytes_of(fs::path(KINORA_TEST_DATA) / kClips.at(key)),
                              {{"height", 16}, {"width", 32}, {"stride", kEvery}});
  return (frames.to(at::kDouble) / 255 * 2 - 1).permute({3, 0, 1, 2}).to(at::kFloat);
}
at::Tensor window(const std::string& key, int64_t first) {
  return clip(key).narrow(1, first, kFrames).unsqueeze(0);
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

std::unique_ptr<ScratchRun> prepared(const std::map<std::string, std::string>& more = {}) {
  auto run = std::make_unique<ScratchRun>(more);
  EXPECT_EQ(run->problems(), "");
  write_shard(*run);
  ScratchRun::save(*run->network("tokenizer", "tokenizer"), run->of("tokenizer") / "weights.safetensors");
  ScratchRun::save(*run->network("latents", "text"), run->folder() / "text.safetensors");
  ScratchRun::save(*run->network("dit", "model"), run->of("dit") / "weights.safetensors");
  return run;
}

json encoded(const ScratchRun& run) {
  JobContext context = run.context("latents");
  run_encode(context);
  return context.summary;
}

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

TEST(EncodeJob, CachesEveryWindowOfEveryClipAndItsStatistics) {
  const at::NoGradGuard off;
  const auto run = prepared();
  const json summary = encoded(*run);
  EXPECT_EQ(summary.at("samples"), 4);
  EXPECT_EQ(summary.at("clips"), 4);
  EXPECT_EQ(summary.at("too_short"), 1);
  EXPECT_EQ(summary.at("failed"), 1) << "a clip that cannot be decoded costs that clip only";

  const LatentCache cache(run->of("latents") / "latents.h5");
  EXPECT_THAT(cache.keys(), testing::ElementsAre("a@0", "a@4", "c@0", "c@4"));
  const auto tokenizer = run->network("tokenizer", "tokenizer");
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
  EXPECT_GT(worst(latents[0], latents[1]), 1e-2) << "windows that are equal would show nothing";
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
                 "job 'latents': none of 2 clips is of use: 1 have fewer than 9 frames, 1 cannot be decoded; "
                 "lower frames, or see the "
                 "warnings above");
  }
}

// The first step's errors are those of the first weights on the clips and starts that (seed, n) names.
TEST(TrainTokenizerJob, ReconstructsCropsAtRandomStarts) {
  constexpr int64_t kBatch = 6;
  const auto run =
      prepared({{"tokenizer",
                 "steps = 1\nbatch = 6\nwarmup = 0\nschedule = 'constant'\nema = 0\nl1 = 0.7\nmse = 0.3\n"
                 "weights = 'FOLDER/start.safetensors'"}});
  const auto network = run->network("tokenizer", "tokenizer");
  ScratchRun::save(*network, run->folder() / "start.safetensors");
  JobContext context = run->context("tokenizer");
  run_train_tokenizer(context);
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

  // The quality that it states is that of the weights that it wrote.
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

struct Film {
  double guidance = 1.5;
  std::string negative;
};

// Karras et al. 2022, algorithm 1, around D(x; sigma) = c_skip x + c_out F with guidance; the film of video n
// as uint8 frames.
at::Tensor film(const ScratchRun& run, int64_t n, const std::string& prompt, const Film& how,
                bool blind = false) {
  const auto model = run.network("dit", "model", at::kDouble),
             tokenizer = run.network("tokenizer", "tokenizer");
  JobContext context = run.context("film", false);
  TextEncoder encoder(context, run.spec("latents"));
  const at::Tensor with = encoder(prompt).to(at::kDouble).unsqueeze(0) * (blind ? 0.0 : 1.0);
  const at::Tensor without =
      how.negative.empty() ? at::zeros_like(with) : encoder(how.negative).to(at::kDouble).unsqueeze(0);
  const auto estimate = [&](const at::Tensor& x, double s, const at::Tensor& text) {
    const double s2 = s * s, d2 = 0.25;
    const at::Tensor f = model
                             ->forward({{"latent", x / std::sqrt(s2 + d2)},
                                        {"timestep", at::full({1}, std::log(s) / 4, at::kDouble)},
                                        {"text", text}})
                             .at(0);
    return d2 / (s2 + d2) * x + s * 0.5 / std::sqrt(s2 + d2) * f;
  };
  const auto denoise = [&](const at::Tensor& x, double s) {
    const at::Tensor none = estimate(x, s, without);
    return none + how.guidance * (estimate(x, s, with) - none);
  };
  const LatentData data(run.of("latents"));
  const auto shape = data.facts().shape;
  constexpr int kSteps = 3;
  std::vector<double> t;
  for (int i = 0; i < kSteps; ++i)
    t.push_back(std::pow(
        std::pow(80., 1 / 7.) + i / double(kSteps - 1) * (std::pow(0.002, 1 / 7.) - std::pow(80., 1 / 7.)),
        7));
  t.push_back(0);
  at::Tensor x = sample_noise(at::empty({1, shape[0], shape[1], shape[2], shape[3]}, at::kDouble), kSeed, n,
                              "generate.noise") *
                 t[0];
  for (size_t i = 0; i < kSteps; ++i) {
    const at::Tensor slope = (x - denoise(x, t[i])) / t[i];
    const at::Tensor next = x + (t[i + 1] - t[i]) * slope;
    x = t[i + 1] == 0 ? next
                      : x + (t[i + 1] - t[i]) * 0.5 * (slope + (next - denoise(next, t[i + 1])) / t[i + 1]);
  }
  const auto by_channel = [](const std::vector<double>& v) {
    return at::tensor(v, at::kDouble).view({-1, 1, 1, 1});
  };
  const at::Tensor latent =
      x / 0.5 * by_channel(data.facts().scale.std) + by_channel(data.facts().scale.mean);
  const at::Tensor video = tokenizer->decode(latent.to(at::kFloat))[0];
  return ((video.to(at::kDouble).clamp(-1, 1) + 1) / 2 * 255).round().to(at::kByte).permute({1, 2, 3, 0});
}

// Six of the frames, side by side, as the lossless picture holds them.
at::Tensor strip(const at::Tensor& frames) {
  const at::Tensor at = at::linspace(0, static_cast<double>(frames.size(0) - 1), 6).round().to(at::kLong);
  return at::cat(frames.index_select(0, at).unbind(0), 1);
}
at::Tensor picture(const fs::path& png) { return decoded(bytes_of(png), json::object())[0]; }

json generated(const ScratchRun& run) {
  JobContext context = run.context("film");
  run_generate(context);
  return context.summary;
}

TEST(GenerateJob, ShowsWhatTheSamplerMadeOfThePrompt) {
  const at::NoGradGuard off;
  const std::vector<std::string> prompts = {"red sea", "blue"};
  for (const Film& how : {Film{1.5, ""}, Film{1, ""}, Film{2, "sea"}}) {
    const auto run =
        prepared({{"film", fmt::format("guidance = {}\nnegative = '{}'", how.guidance, how.negative)}});
    encoded(*run);
    EXPECT_EQ(generated(*run).at("videos"), 2);
    for (int64_t n = 0; n < 2; ++n) {
      const at::Tensor want = strip(film(*run, n, prompts[static_cast<size_t>(n)], how));
      const at::Tensor got = picture(run->of("film") / "videos" / fmt::format("{:03}.png", n));
      ASSERT_EQ(got.sizes(), want.sizes());
      EXPECT_LE(worst(got, want), 1) << "video " << n << ", guidance " << how.guidance;
      EXPECT_GT(want.to(at::kDouble).std().item<double>(), 5) << "a grey picture would show nothing";
      EXPECT_GT(worst(strip(film(*run, n, prompts[static_cast<size_t>(n)], how, true)), want), 3)
          << "a prompt without effect would show nothing";
    }
  }
}

// Killed between the second video's picture and its last file.
TEST(GenerateJob, KeepsVideosThatAreCompleteAndWritesEachLineOnce) {
  const auto run = prepared();
  encoded(*run);
  generated(*run);
  const fs::path videos = run->of("film") / "videos";
  const auto first = bytes_of(run->of("film") / "metrics.jsonl"), second = bytes_of(videos / "001.mp4");
  const auto written = fs::last_write_time(videos / "000.mp4");
  fs::remove(videos / "001.json");
  fs::remove(videos / "001.mp4");
  EXPECT_EQ(generated(*run).at("videos"), 2);
  EXPECT_EQ(fs::last_write_time(videos / "000.mp4"), written);
  EXPECT_EQ(bytes_of(videos / "001.mp4").size(), second.size());
  const auto lines = run->metrics("film");
  ASSERT_EQ(lines.size(), 2U);
  for (size_t n = 0; n < 2; ++n) EXPECT_EQ(lines[n].at("number"), n);
}

}  // namespace
}  // namespace kinora::core
