// Tests how train-tokenizer starts, what it minimises and how it resumes, and encode with its own tokenizer:
// on real clips, against the mathematics written out here.
#include <cmath>
#include <fstream>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "core/run/job.hpp"
#include "core/torch/network/instances.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/score.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
constexpr const char* kOnce =
    "steps = 1\nbatch = 2\nwarmup = 0\nschedule = 'constant'\nema = 0\ncheckpoint_every = 1000\n"
    "tensorboard = false\nweights = 'FOLDER/start.safetensors'\n";
constexpr const char* kLevels =
    "encoder_block_out_channels = [4, 8, 8], decode_block_out_channels = [4, 8, 8] }\n";
const std::string kDiscrete =
    std::string("tokenizer = { use = 'cosmos', formulation = 'FSQ', levels = [5, 3], embedding_dim = 2, ") +
    kLevels;
const std::string kWan =
    "tokenizer = { use = 'wan', base_dim = 2, z_dim = 2, dim_mult = [1, 1, 1, 1], num_res_blocks = 1, "
    "latents_mean = [0.3, -0.2], latents_std = [1.5, 0.5] }\n";

std::unique_ptr<ScratchRun> tokenizer_training(const std::string& more) {
  auto run = prepared({{"tokenizer", kOnce + more}});
  ScratchRun::save(*run->tokenizer("tokenizer"), run->folder() / "start.safetensors");
  return run;
}
json trained_tokenizer(const ScratchRun& run) {
  JobContext context = run.context("tokenizer");
  test::run_job(context);
  return context.summary;
}
std::string tokenizer_failure(const ScratchRun& run) {
  return test::refusal([&] { trained_tokenizer(run); });
}

// Sample n of the training: `length` frames of clips a and c.
Tensor crop(int64_t n, int64_t length = kFrames) {
  const double u = sample_uniform({1}, kSeed, n, "tokenizer.start").item<double>();
  const auto first = static_cast<int64_t>(std::floor(u * static_cast<double>(16 - length + 1)));
  return clip(shuffled(n, 2, kSeed) ? "c" : "a").narrow(1, first, length).unsqueeze(0);
}
void expect_near(const json& line, const std::string& name, double want, double bound = 1e-4) {
  EXPECT_NEAR(line.at(name).get<double>() / want, 1, bound) << name;
}

// VGG16 and the five linear layers of LPIPS, random.
void write_lpips(const fs::path& file) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> layers = {
      {"1.0", {64, 3}},     {"1.2", {64, 64}},    {"2.5", {128, 64}},   {"2.7", {128, 128}},
      {"3.10", {256, 128}}, {"3.12", {256, 256}}, {"3.14", {256, 256}}, {"4.17", {512, 256}},
      {"4.19", {512, 512}}, {"4.21", {512, 512}}, {"5.24", {512, 512}}, {"5.26", {512, 512}},
      {"5.28", {512, 512}}};
  at::manual_seed(5);
  NamedTensors out;
  for (const auto& [name, size] : layers) {
    out["net.slice" + name + ".weight"] =
        at::randn({size[0], size[1], 3, 3}) * std::sqrt(2.0 / (9.0 * static_cast<double>(size[1])));
    out["net.slice" + name + ".bias"] = at::zeros({size[0]});
  }
  const std::vector<int64_t> channels = {64, 128, 256, 512, 512};
  for (size_t i = 0; i < channels.size(); ++i)
    out["lin" + std::to_string(i) + ".model.1.weight"] = at::rand({1, channels[i], 1, 1});
  write_tensors(file, out);
}

TEST(TokenizerTuning, WeighsTheCriticByTheGradientsAtTheLastLayer) {
  const auto run = tokenizer_training(
      "l1 = 0.7\nmse = 0.3\nperceptual_weight = 0.4\ncritic_weight = 0.6\n"
      "perceptual = { use = 'lpips', weights = 'FOLDER/lpips.safetensors' }\n"
      "critic = { use = 'patch-discriminator', channels = 4, layers = 2 }");
  write_lpips(run->folder() / "lpips.safetensors");
  const json summary = trained_tokenizer(*run), line = run->metrics("tokenizer").at(0);
  const auto network = run->tokenizer("tokenizer");
  JobContext context = run->context("tokenizer", false);
  const auto* slot = run->spec("tokenizer").component("critic");
  Model critic(context.open(*slot), slot->options, {.seed = kSeed + 1});
  const LossInstance lpips(context.open_slot("perceptual"),
                           run->spec("tokenizer").component("perceptual")->options);
  const Tensor video = at::cat({crop(0), crop(1)});
  const auto made = [&] { return network->decode(network->encode(video)); };
  const auto logits = [&](const Tensor& v) { return critic.forward({{"video", v}})[0]; };
  const auto perceptual = [&](const Tensor& y) {
    return lpips.evaluate({{"prediction", y}, {"target", video}}).at("loss").mean();
  };
  const auto rebuilt = [&](const Tensor& y) {
    return 0.7 * (y - video).abs().mean() + 0.3 * (y - video).square().mean() + 0.4 * perceptual(y);
  };
  const auto norm_at_last = [&](const Tensor& loss) {
    for (auto& leaf : network->chain().leaves()) leaf.tensor.mutable_grad() = Tensor();
    loss.backward();
    for (const auto& leaf : network->chain().leaves())
      if (leaf.name == "decoder.conv_out.conv_t.weight") return leaf.tensor.grad().norm().item<double>();
    return std::nan("");
  };
  const double reconstruction = norm_at_last(rebuilt(made())), against = norm_at_last(-logits(made()).mean());
  const double adaptive = reconstruction / (against + 1e-4);
  const Tensor y = made().detach();
  const double adversarial = -logits(y).mean().item<double>();
  const double own = (at::relu(1 - logits(video)).mean() + at::relu(1 + logits(y)).mean()).item<double>() / 2;
  expect_near(line, "perceptual", perceptual(y).item<double>());
  expect_near(line, "critic", own);
  expect_near(line, "adversarial", adversarial, 1e-3);
  expect_near(line, "adversarial_weight", adaptive, 1e-3);
  expect_near(line, "loss", rebuilt(y).item<double>() + 0.6 * adaptive * adversarial, 1e-3);

  // The reported quality is that of the written weights, on the first window of each clip.
  network->load(run->of("tokenizer") / "weights.safetensors");
  const at::NoGradGuard off;
  double similarity = 0, distance = 0;
  for (const char* key : {"a", "c"}) {
    const Tensor shown = window(key, 0), again = network->decode(network->encode(shown)).clamp(-1, 1);
    similarity += test::scored("ssim", {{"prediction", again}, {"target", shown}}) / 2;
    distance += lpips.evaluate({{"prediction", again}, {"target", shown}}).at("loss").item<double>() / 2;
  }
  expect_near(summary, "ssim", similarity, 1e-3);
  expect_near(summary, "perceptual", distance, 1e-3);
}

TEST(TokenizerTuning, ResumedWithItsCriticEqualsUninterruptedBitForBit) {
  const std::string more =
      "critic_start = 1\ncritic = { use = 'patch-discriminator', channels = 4, layers = 2 }\n";
  const auto start = [&] {
    auto run =
        prepared({{"tokenizer",
                   "steps = 4\nbatch = 2\nwarmup = 0\nschedule = 'constant'\ncheckpoint_every = 2\nkeep = 9\n"
                   "async_checkpoints = false\ntensorboard = false\n" +
                       more}});
    return run;
  };
  const auto whole = start(), resumed = start();
  trained_tokenizer(*whole);
  const fs::path kept = fs::path("checkpoints") / "step-000002";
  fs::create_directories(resumed->of("tokenizer") / "checkpoints");
  fs::copy(whole->of("tokenizer") / kept, resumed->of("tokenizer") / kept, fs::copy_options::recursive);
  trained_tokenizer(*resumed);
  const fs::path last = fs::path("checkpoints") / "step-000004";
  for (const fs::path& file :
       {fs::path("weights.safetensors"), last / "more.safetensors", last / "optimizer.safetensors"}) {
    const auto a = read_tensors(whole->of("tokenizer") / file),
               b = read_tensors(resumed->of("tokenizer") / file);
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, t] : a) EXPECT_TRUE(at::equal(t, b.at(name))) << file << " " << name;
  }
  const auto half = read_tensors(whole->of("tokenizer") / kept / "more.safetensors"),
             full = read_tensors(whole->of("tokenizer") / last / "more.safetensors");
  EXPECT_EQ(half.at("critic.steps").item<int64_t>(), 1) << "the first step is before critic_start";
  EXPECT_EQ(full.at("critic.steps").item<int64_t>(), 3);
  EXPECT_GT(
      worst(half.at("critic.weight.layers.0.conv.weight"), full.at("critic.weight.layers.0.conv.weight")), 0);
}

// The critic's first step is as long as its learning rate.
TEST(TokenizerTuning, TheCriticLearnsAtItsOwnRate) {
  const auto weight = [](const std::string& rate) {
    const auto run = prepared(
        {{"tokenizer",
          "steps = 1\nbatch = 2\nwarmup = 0\ncheckpoint_every = 1\nasync_checkpoints = false\n"
          "tensorboard = false\ncritic = { use = 'patch-discriminator', channels = 4, layers = 2 }\n" +
              rate}});
    trained_tokenizer(*run);
    return read_tensors(run->of("tokenizer") / "checkpoints" / "step-000001" / "more.safetensors")
        .at("critic.weight.layers.0.conv.weight")
        .to(at::kDouble);
  };
  const Tensor slow = weight(""), fast = weight("critic_learning_rate = 1e-3\n"),
               faster = weight("critic_learning_rate = 2e-3\n");
  EXPECT_GT((fast - slow).abs().max().item<double>(), 0);
  EXPECT_LT(worst((faster - fast) * 0.9, fast - slow), 1e-6) << "with steps of 1e-3; the default is 1e-4";
}

// A published folder gives the tokenizer, its configuration and its weights.
TEST(TokenizerTuning, StartsFromThePipelineThatIsGiven) {
  const fs::path folder = fs::path(KINORA_TEST_DATA) / "oracle" / "wan_t2v";
  const auto run =
      prepared({{"tokenizer",
                 fmt::format("steps = 1\nbatch = 2\nwarmup = 0\nema = 0\nlearning_rate = 1e-30\n"
                             "weight_decay = 0\ntensorboard = false\ntokenizer = 'wan'\npipeline = '{}'\n",
                             folder.string())}});
  trained_tokenizer(*run);
  const auto network = run->tokenizer("tokenizer");
  network->load(folder / "vae");
  const NamedTensors want = assemble(network->chain().parameters(), network->chain().leaves()),
                     got = read_tensors(run->of("tokenizer") / "weights.safetensors");
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, t] : want) EXPECT_TRUE(at::equal(got.at(name), t)) << name;
}

// Each microbatch consists of videos or of single frames.
TEST(TokenizerTuning, MixesImagesAndVideos) {
  const auto longer =
      prepared({{"tokenizer",
                 "steps = 6\nbatch = 2\naccumulate = 2\nwarmup = 0\nema = 0\nlearning_rate = 1e-30\n"
                 "weight_decay = 0\nimage_share = 0.5\nweights = 'FOLDER/start.safetensors'\n"}});
  const auto network = longer->tokenizer("tokenizer");
  ScratchRun::save(*network, longer->folder() / "start.safetensors");
  trained_tokenizer(*longer);
  const at::NoGradGuard off;
  int64_t images = 0;
  const auto lines = longer->metrics("tokenizer");
  ASSERT_EQ(lines.size(), 6U);
  for (int64_t step = 0; step < 6; ++step) {
    double l1 = 0;
    for (int64_t n = 2 * step; n < 2 * step + 2; ++n) {
      const bool image = sample_uniform({1}, kSeed, n, "tokenizer.image").item<double>() < 0.5;
      images += image;
      const Tensor video = crop(n, image ? 1 : kFrames);
      l1 += (network->decode(network->encode(video)) - video).abs().mean().item<double>() / 2;
    }
    expect_near(lines[static_cast<size_t>(step)], "l1", l1);
  }
  EXPECT_GT(images, 0);
  EXPECT_LT(images, 12);
}

TEST(TokenizerTuning, DrawsLatentsAndCountsTheirDivergence) {
  const auto run = tokenizer_training("kl = 0.01\n" + kWan);
  trained_tokenizer(*run);
  const auto network = run->tokenizer("tokenizer");
  const at::NoGradGuard off;
  const Tensor video = at::cat({crop(0), crop(1)});
  Tensor moments;
  network->encode(video, &moments);
  const Tensor mean = moments.narrow(1, 0, 2), logvar = moments.narrow(1, 2, 2);
  const Tensor z = mean + (logvar / 2).exp() * sample_noise(mean, kSeed, 0, "tokenizer.posterior");
  const Tensor error = network->decode(z) - video;
  const double kl = ((mean.square() + logvar.exp() - 1 - logvar).sum() / 2 / 2).item<double>(),
               l1 = error.abs().mean().item<double>(), mse = error.square().mean().item<double>();
  const json line = run->metrics("tokenizer").at(0);
  expect_near(line, "kl", kl);
  expect_near(line, "l1", l1);
  expect_near(line, "loss", l1 + mse + 0.01 * kl);
  EXPECT_THAT(tokenizer_failure(*tokenizer_training("kl = 0.01\n")),
              HasSubstr("kl requires the moments of latents"));
}

TEST(TokenizerTuning, OfADiscreteTokenizerReachesTheEncoder) {
  const auto run = tokenizer_training(kDiscrete);
  trained_tokenizer(*run);
  const auto network = run->tokenizer("tokenizer");
  Tensor vectors;
  const Tensor video = at::cat({crop(0), crop(1)});
  network->encode(video, &vectors);
  const double l1 = (network->decode(vectors) - video).abs().mean().item<double>();
  expect_near(run->metrics("tokenizer").at(0), "l1", l1);
  const auto before = read_tensors(run->folder() / "start.safetensors"),
             after = read_tensors(run->of("tokenizer") / "weights.safetensors");
  for (const auto& [name, t] : before) EXPECT_GT(worst(t, after.at(name)), 0) << name;
}

// For two vectors each, the covariances have rank one, u u^T and v v^T, and tr (S1^1/2 S2 S1^1/2)^1/2 is |u .
// v|.
double distance_of_pairs(const std::vector<Tensor>& seen, const std::vector<Tensor>& made) {
  const Tensor u = (seen[0] - seen[1]) / std::sqrt(2.), v = (made[0] - made[1]) / std::sqrt(2.),
               apart = (seen[0] + seen[1] - made[0] - made[1]) / 2;
  return (apart.square().sum() + u.square().sum() + v.square().sum() - 2 * u.dot(v).abs()).item<double>();
}

TEST(TokenizerTuning, ReportsTheFrechetDistanceOfAFeatureModel) {
  const std::string features =
      "features = { use = 'clip-vision', hidden_size = 8, intermediate_size = 12, num_hidden_layers = 2, "
      "num_attention_heads = 2, image_size = 14, patch_size = 7 }\n";
  const auto run = tokenizer_training(features + "features_weights = 'FOLDER/features.safetensors'\n");
  const auto model = run->model("tokenizer", "features");
  ScratchRun::save(*model, run->folder() / "features.safetensors");
  const json summary = trained_tokenizer(*run);
  const at::NoGradGuard off;
  const auto network = run->tokenizer("tokenizer");
  network->load(run->of("tokenizer") / "weights.safetensors");
  std::vector<Tensor> seen, made;
  for (const char* key : {"a", "c"}) {
    const auto of = [&](const Tensor& video) {
      std::vector<Tensor> all;
      for (const auto& frame : frames_of(video).unbind(0))
        all.push_back(model->forward({{"image", clip_image(frame, 14)}}).at(1));
      return at::cat(all).mean(0).to(at::kDouble);
    };
    const Tensor video = clip(key).narrow(1, 0, kFrames).unsqueeze(0);
    seen.push_back(of(video));
    made.push_back(of(network->decode(network->encode(video)).clamp(-1, 1)));
  }
  const double want = distance_of_pairs(seen, made);
  EXPECT_GT(want, 1e-3);
  expect_near(summary, "frechet_distance", want, 1e-3);
  EXPECT_GT(summary.at("psnr").get<double>(), 0) << "the usual scores include the distance";
  EXPECT_THAT(tokenizer_failure(*tokenizer_training(features)),
              HasSubstr("set its weights: features_weights"));
  EXPECT_THAT(tokenizer_failure(*tokenizer_training("features = 'minilm'\nfeatures_weights = 'x'\n")),
              HasSubstr("reads neither 'video' nor an 'image'"));
}

// The mean and the mean square of each channel, by a script with the arguments of the FVD's I3D.
constexpr const char* kScript = R"(
def forward(self, x: Tensor, rescale: bool = True, resize: bool = False, return_features: bool = False):
    assert not rescale and resize and return_features
    return torch.cat([x.mean([2, 3, 4]), x.square().mean([2, 3, 4])], dim=1)
)";

TEST(TokenizerTuning, ReportsTheFrechetDistanceOfAScript) {
  const auto run = tokenizer_training("features_weights = 'FOLDER/i3d.pt'\n");
  torch::jit::Module script("of_a_test");
  script.define(kScript);
  script.save((run->folder() / "i3d.pt").string());
  const json summary = trained_tokenizer(*run);
  const at::NoGradGuard off;
  const auto network = run->tokenizer("tokenizer");
  network->load(run->of("tokenizer") / "weights.safetensors");
  std::vector<Tensor> seen, made;
  for (const char* key : {"a", "c"}) {
    const auto of = [](const Tensor& x) {
      return at::cat({x.mean({0, 2, 3, 4}), x.square().mean({0, 2, 3, 4})}).to(at::kDouble);
    };
    const Tensor video = clip(key).narrow(1, 0, kFrames).unsqueeze(0);
    seen.push_back(of(video));
    made.push_back(of(network->decode(network->encode(video)).clamp(-1, 1)));
  }
  const double want = distance_of_pairs(seen, made);
  EXPECT_GT(want, 1e-3);
  expect_near(summary, "frechet_distance", want, 1e-3);
}

TEST(TokenizerTuning, SaysWhatAFeatureScriptLacks) {
  const auto with = [](const std::string& text, const std::string& more = "") {
    const auto run = tokenizer_training("features_weights = 'FOLDER/i3d.pt'\n" + more);
    if (text.empty()) {
      std::ofstream(run->folder() / "i3d.pt") << "no archive";
    } else {
      torch::jit::Module script("of_a_test");
      script.define(text);
      script.save((run->folder() / "i3d.pt").string());
    }
    return tokenizer_failure(*run);
  };
  EXPECT_THAT(with(""), HasSubstr("is not a TorchScript file that libtorch can read"));
  EXPECT_THAT(with("def forward(self, x: Tensor):\n    return x\n"),
              HasSubstr("must return a tensor [B, D]"));
  EXPECT_THAT(with("def forward(self, x: Tensor):\n    return x.view([2])\n"),
              HasSubstr("its forward fails on a video [1, 3, 9, 16, 32]"));
  EXPECT_THAT(with(kScript, "features = { use = 'clip-vision' }\n"), HasSubstr("remove `features`"));
  EXPECT_THAT(tokenizer_failure(*tokenizer_training("features_weights = 'FOLDER/x.safetensors'\n")),
              HasSubstr("belong to no model"));
}

TEST(TokenizerScores, AreThoseThatTheRunFileNames) {
  const auto run =
      tokenizer_training("scores = ['psnr', { use = 'lpips', weights = 'FOLDER/lpips.safetensors' }]\n");
  write_lpips(run->folder() / "lpips.safetensors");
  const json summary = trained_tokenizer(*run);
  EXPECT_FALSE(summary.contains("ssim"));
  const at::NoGradGuard off;
  const auto network = run->tokenizer("tokenizer");
  network->load(run->of("tokenizer") / "weights.safetensors");
  const auto lpips = test::score("lpips", {{"weights", (run->folder() / "lpips.safetensors").string()}});
  double ratio = 0;
  for (const char* key : {"a", "c"}) {
    const Tensor shown = window(key, 0), again = network->decode(network->encode(shown)).clamp(-1, 1);
    lpips->update({{"prediction", again}, {"target", shown}});
    ratio += 10 * std::log10(4 / (again - shown).square().mean().item<double>()) / 2;
  }
  expect_near(summary, "psnr", ratio);
  expect_near(summary, "lpips", lpips->compute().at(0).second, 1e-3);
}

TEST(TokenizerScores, SayWhatTheyLack) {
  EXPECT_THAT(tokenizer_failure(*tokenizer_training("scores = ['frechet']\n")),
              HasSubstr("score/frechet reads 'real', which comes from a feature model; set features"));
  EXPECT_THAT(tokenizer_failure(*tokenizer_training("scores = ['psnr', 'ssim', 'score/psnr']\n")),
              HasSubstr("score/psnr gives 'psnr', which another measure of this job gives too"));
  EXPECT_THAT(
      tokenizer_failure(*tokenizer_training("scores = ['psnr']\nfeatures_weights = 'FOLDER/i3d.pt'\n")),
      HasSubstr("none reads the features of the job's feature model"));
}

TEST(TokenizerTuning, OfCodesRefusesADivergence) {
  EXPECT_THAT(tokenizer_failure(*tokenizer_training("kl = 0.5\n" + kDiscrete)),
              HasSubstr("kl = 0.5: tokenizer/cosmos makes codes"));
}

TEST(TokenizerStart, TakesWhatFitsAndSaysWhatDoesNot) {
  const auto run = tokenizer_training("partial = true\nlearning_rate = 1e-30\nweight_decay = 0\n");
  auto weights = read_tensors(run->folder() / "start.safetensors");
  const std::string taken = "decoder.conv_out.conv_t.weight", lost = "quant_conv.bias",
                    grown = "post_quant_conv.weight";
  NamedTensors given;
  for (const auto& [name, t] : weights)
    if (name != lost) given[name] = t.clone();
  given[grown] = given[grown].narrow(1, 0, 1).clone();
  given["of.another"] = at::ones({2});
  write_tensors(run->folder() / "start.safetensors", given);
  const json summary = trained_tokenizer(*run);
  const std::string counts = fmt::format("{} taken, 1 resized, 1 new, 1 unused", given.size() - 2);
  EXPECT_EQ(summary.at("weights"), counts);
  std::ifstream in(run->of("tokenizer") / "weights.txt");
  const std::string table{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(table, HasSubstr(counts));
  for (const auto& name : {lost, grown, std::string("of.another")}) EXPECT_THAT(table, HasSubstr(name));
  const auto made = read_tensors(run->of("tokenizer") / "weights.safetensors");
  EXPECT_EQ(worst(made.at(taken), given.at(taken)), 0);
  EXPECT_EQ(worst(made.at(grown).narrow(1, 0, 1), given.at(grown)), 0);
}

TEST(TokenizerStart, ByPrincipalComponentsIsThatOfTheTrainingClips) {
  const std::string principal =
      "steps = 1\nbatch = 2\nwarmup = 0\nema = 0\nlearning_rate = 1e-30\nweight_decay = 0\ntensorboard = "
      "false\n"
      "start = 'principal'\nmemory = '1 MiB'\ntokenizer = { use = 'cosmos', latent_channels = 24, "
      "spatial_compression_ratio = "
      "4, "
      "encoder_block_out_channels = [50, 50], decode_block_out_channels = [50, 50] }\n";
  const auto run = prepared({{"tokenizer", principal}});
  const json summary = trained_tokenizer(*run);
  const auto made = run->tokenizer("tokenizer"), fitted = run->tokenizer("tokenizer");
  std::vector<Tensor> crops;
  for (int64_t n = 0; n < (1 << 18) / (12 * kFrames * 16 * 32); ++n) crops.push_back(crop(n));
  made->load(run->of("tokenizer") / "weights.safetensors");
  fitted->fit(at::cat(crops));
  const auto off = [&] { return worst(made->encode(crop(0)), fitted->encode(crop(0))); };
  fitted->load(run->of("tokenizer") / "weights.safetensors");
  fitted->fit(crops[0]);
  EXPECT_GT(off(), 0.1);
  fitted->fit(at::cat(crops));
  EXPECT_LT(off(), 1e-4);
  EXPECT_GT(summary.at("psnr").get<double>(), 30);

  const auto both = prepared({{"tokenizer", principal + "weights = 'some.safetensors'\n"}});
  EXPECT_THAT(tokenizer_failure(*both), HasSubstr("both set the initial weights; remove one"));
}

TEST(TokenizerStart, OfNvidiasArchivesFindsTheNamesByItself) {
  const fs::path oracles = fs::path(KINORA_TEST_DATA) / "oracle",
                 folder = fs::temp_directory_path() / "kinora-cv-jit";
  fs::create_directories(folder);
  for (const char* part : {"encoder.jit", "decoder.jit"})
    fs::copy_file(oracles / ("cosmos_tokenizer_cv_" + std::string(part)), folder / part,
                  fs::copy_options::overwrite_existing);
  const test::Oracle oracle("cosmos_tokenizer_nvidia.safetensors", "cv");
  const auto component = or_throw(test::plugins().open("tokenizer/cosmos"));
  Tokenizer network(component, or_throw(Options::make(*component.spec, oracle.options)),
                    {.dtype = at::kDouble});
  network.load(folder);
  const at::NoGradGuard off;
  const Tensor latent = network.encode(test::numbers("video", oracle.exact("grad.video").sizes()));
  EXPECT_LT(test::difference(latent, oracle.exact("latent")), 1e-10);
  EXPECT_LT(test::difference(network.decode(latent), oracle.exact("decoded")), 1e-10);
  fs::remove_all(folder);
}

// The encode job's own tokenizer is used, not that of the earlier job.
std::unique_ptr<ScratchRun> encoding(const std::string& tokenizer) {
  auto run = prepared({{"latents", tokenizer + "tokenizer_weights = 'FOLDER/own.safetensors'\n"}});
  ScratchRun::save(*run->tokenizer("latents"), run->folder() / "own.safetensors");
  encoded(*run);
  return run;
}

TEST(EncodeJob, OfADiscreteTokenizerOfItsOwnCachesCodes) {
  const auto run = encoding(kDiscrete);
  const auto network = run->tokenizer("latents");
  const at::NoGradGuard off;
  const LatentData data(run->of("latents"));
  ASSERT_EQ(data.size(), 4);
  EXPECT_TRUE(data.facts().scale.mean.empty());
  std::set<int64_t> seen;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto item = data.item(i);
    EXPECT_FALSE(item.latent.defined());
    const Tensor codes = item.more.at("codes"),
                 want = network->encode(window(item.key.substr(0, 1), std::stoll(item.key.substr(2))))[0];
    EXPECT_EQ(codes.scalar_type(), at::kInt);
    EXPECT_TRUE(at::equal(codes, want)) << item.key;
    EXPECT_EQ(data.facts().shape, codes.sizes().vec());
    for (int64_t j = 0; j < codes.numel(); ++j) seen.insert(codes.flatten()[j].item<int64_t>());
  }
  EXPECT_GT(seen.size(), 1U) << "codes that are all equal would prove nothing";
}

// Wan normalises by published numbers; the job's measured scale is applied on top.
TEST(EncodeJob, MeasuresLatentsThatTheTokenizerNormalises) {
  const auto run = encoding(kWan);
  const auto network = run->tokenizer("latents");
  const at::NoGradGuard off;
  const LatentData data(run->of("latents"));
  std::vector<Tensor> latents;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto item = data.item(i);
    latents.push_back(network->encode(window(item.key.substr(0, 1), std::stoll(item.key.substr(2))))[0]);
    EXPECT_LT(worst(data.facts().scale.denormalise(item.latent), latents.back()), 1e-4);
  }
  const Tensor all = at::cat(latents, 1).flatten(1).to(at::kDouble);
  for (int64_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(data.facts().scale.mean[static_cast<size_t>(c)], all[c].mean().item<double>(), 1e-5);
    EXPECT_NEAR(data.facts().scale.std[static_cast<size_t>(c)], all[c].std(false).item<double>(), 1e-5);
  }
}

}  // namespace
}  // namespace kinora::core
