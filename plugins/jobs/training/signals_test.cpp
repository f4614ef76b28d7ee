// Conditioning signals on their way from a clip's metadata through the latent cache into a model's loss.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

const std::string kImage =
    "image_encoder = { use = 'clip-vision', hidden_size = 8, intermediate_size = 12, num_hidden_layers = 2, "
    "num_attention_heads = 2, image_size = 14, patch_size = 7 }\n"
    "image_encoder_weights = 'FOLDER/clip.safetensors'\n";
const std::string kSignalsModel =
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
    "head_size = 12, adaln_lora = 4, signals = ['fps:1', 'pose:3', 'image:8:tokens'] }\n"
    "weights = 'FOLDER/start.safetensors'\nsteps = 1\nbatch = 4\nwarmup = 0\nschedule = 'constant'\n"
    "ema = 0\ncheckpoint_every = 1000\ntensorboard = false\n";

// Clip d lacks a pose, and b is not a video.
ClipFacts facts() {
  const json still = {0.5, -0.25, 1};
  return {{"a", {{"pose", still}}},  // its file has 24 frames per second
          {"b", {{"fps", 24}, {"pose", still}}},
          {"c", {{"fps", 30}, {"pose", {2, 0, -1}}}},
          {"d", {{"fps", 30}}}};
}

std::unique_ptr<ScratchRun> ready(const ClipFacts& facts) {
  auto run = prepared({{"latents", "signals = ['fps', 'pose']\n" + kImage}, {"dit", kSignalsModel}}, facts);
  ScratchRun::save(*run->model("latents", "image_encoder"), run->folder() / "clip.safetensors");
  ScratchRun::save(*run->model("dit"), run->folder() / "start.safetensors");
  return run;
}

double loss_with(const ClipFacts& facts) {
  const auto run = ready(facts);
  encoded(*run);
  JobContext context = run->context("dit");
  test::run_job(context);
  return run->metrics("dit").at(0).at("loss");
}

TEST(EncodeSignals, AreCachedByNameBesideTheLatent) {
  const auto run = ready(facts());
  const json summary = encoded(*run);
  EXPECT_EQ(summary.at("samples"), 4);
  EXPECT_EQ(summary.at("without_signal"), 1);
  EXPECT_EQ(summary.at("failed"), 1);
  EXPECT_EQ(summary.at("too_short"), 0) << "clip d is counted once";
  const LatentCache cache(run->of("latents") / "latents.h5");
  EXPECT_THAT(cache.keys(), testing::ElementsAre("a@0", "a@4", "c@0", "c@4"));
  const auto encoder = run->model("latents", "image_encoder");
  for (const auto& key : cache.keys()) {
    const auto got = cache.read(key);
    const bool a = key[0] == 'a';
    EXPECT_EQ(got.at("fps").dim(), 0);
    EXPECT_EQ(got.at("fps").item<double>(), (a ? 24. : 30.) / kEvery) << "the rate of the encoded frames";
    EXPECT_TRUE(
        at::equal(got.at("pose"), a ? at::tensor({0.5f, -0.25f, 1.f}) : at::tensor({2.f, 0.f, -1.f})));
    const auto first = frames_of(window(key.substr(0, 1), std::stoll(key.substr(2))))[0];
    const auto want = encoder->forward({{"image", clip_image(first, 14)}}).at(0)[0];
    EXPECT_EQ(want.sizes(), (std::vector<int64_t>{5, 8}));
    EXPECT_LT(worst(got.at("image"), want), 1e-5);
  }
  EXPECT_GT(worst(cache.read("a@0").at("image"), cache.read("a@4").at("image")), 1e-3);
}

TEST(EncodeSignals, ReachTheLossOfATraining) {
  const double first = loss_with(facts());
  EXPECT_EQ(loss_with(facts()), first);
  ClipFacts moved = facts(), slower = facts();
  moved["c"]["pose"][1] = 3;
  slower["a"]["fps"] = 12;
  EXPECT_GT(std::abs(loss_with(moved) / first - 1), 1e-3);
  EXPECT_GT(std::abs(loss_with(slower) / first - 1), 1e-3);
}

TEST(EncodeSignals, ThatClipsDoNotHaveAreNamed) {
  const auto said = [](const std::string& signals, const ClipFacts& given) -> std::string {
    return test::refusal([&] { encoded(*prepared({{"latents", "signals = " + signals}}, given)); });
  };
  ClipFacts wrong;
  for (const char* key : {"a", "b", "c", "d"}) wrong[key] = {{"pose", "left"}};
  EXPECT_THAT(said("['speed']", wrong),
              HasSubstr("of 4 clips 4 lack a signal, the last one because its metadata has "
                        "no 'speed', which the option signals requires"));
  EXPECT_EQ(said("['fps']", wrong), "nothing was refused") << "the file says its rate";
  EXPECT_THAT(said("['pose']", wrong), HasSubstr("'pose' in its metadata is neither a number nor a list"));
  EXPECT_THAT(said("['latent']", {}), HasSubstr("'latent' is the name of something else"));
  EXPECT_THAT(said("['fps', 'fps']", {}), HasSubstr("given twice"));
}

// The latents of a generate job that uses the model above with random weights.
Tensor video_with(const std::string& signals, const std::string& line = "") {
  const std::string given =
      line.empty() ? "prompts = ['red']\n" : "prompts = []\nprompts_file = 'FOLDER/prompts.jsonl'\n";
  auto run = prepared({{"latents", "signals = ['fps', 'pose']\n" + kImage},
                       {"dit", kSignalsModel},
                       {"film", given + "format = ['latents']\nsignals = " + signals + "\n"}},
                      facts());
  ScratchRun::save(*run->model("latents", "image_encoder"), run->folder() / "clip.safetensors");
  ScratchRun::save(*run->model("dit"), run->folder() / "start.safetensors");
  std::ofstream(run->folder() / "prompts.jsonl") << line << "\n";
  encoded(*run);
  JobContext train = run->context("dit"), video = run->context("film");
  test::run_job(train);
  test::run_job(video);
  const auto about = json::parse(std::ifstream(run->of("film") / "videos/000.json"));
  const json want = signals == "[]" ? json::array() : json{"fps=3", "pose=0.5,-0.25,1"};
  if (line.empty()) {
    EXPECT_EQ(about.at("options").at("signals"), want);
  }
  return read_tensors(run->of("film") / "videos/000.latents.safetensors").begin()->second;
}

TEST(GenerateSignals, ReachTheModelFromOptionsAndFromLines) {
  const Tensor with = video_with("['pose=0.5,-0.25,1', 'fps=3']"), without = video_with("[]");
  EXPECT_GT(worst(with, without), 1e-4);
  EXPECT_EQ(
      worst(video_with("[]", R"({"prompt": "red", "signals": {"fps": 3, "pose": [0.5, -0.25, 1]}})"), with),
      0);
}

TEST(GenerateSignals, ThatDoNotFitAreNamed) {
  const auto said = [](const std::string& signals, const std::string& line = "") -> std::string {
    return test::refusal([&] { video_with(signals, line); });
  };
  EXPECT_THAT(said("['poze=1']"),
              HasSubstr("model/dit takes no 'poze'; its own signals are: fps, image, pose"));
  EXPECT_THAT(said("['pose=a']"), HasSubstr("'pose=a' is not NAME=NUMBER or NAME=NUMBER,NUMBER,..."));
  EXPECT_THAT(said("['fps=1', 'fps=2']"), HasSubstr("'fps' is given twice"));
  EXPECT_THAT(said("[]", R"({"prompt": "red", "signals": {"fps": "3"}})"),
              HasSubstr("prompts.jsonl:1: 'signals' must be an object of numbers and lists of numbers"));
}

}  // namespace
}  // namespace kinora::core
