// kind = "generate" on the folder of a published pipeline: equals diffusers' pipelines on the same weights,
// prompts, picture and noise (tests/oracle/make_wan_pipeline_fixtures.py).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

// The folders' configurations are the components' options; the rest are the conventions of Wan's pipelines.
constexpr const char* kWanJob = R"(
[run]
out = '{1}'
seed = 3
[[job]]
name = 'film'
kind = 'generate'
prompts = ['red sea']
negative = 'blurry blue'
guidance = 3.0
frames = 9
height = 32
width = 48
format = ['latents', 'png']
sampler = {{ use = 'unipc', steps = 4, shift = 3.0, convention = 'diffusers' }}
loss = {{ use = 'flow', whole_timesteps = true }}
model = 'wan'
weights = '{4}/transformer'
tokenizer = 'wan'
tokenizer_weights = ['{0}/vae']
text = 'umt5'
text_weights = '{0}/text_encoder'
words = {{ use = 'text.tokenizer', file = '{0}/tokenizer', clean = true }}
max_tokens = {3}
pad_text = true
{2}
)";

class PublishedWan : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-published-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  static fs::path published(const std::string& name) { return fs::path(KINORA_TEST_DATA) / "oracle" / name; }

  static std::string second_expert(const std::string& name, double boundary) {
    return fmt::format("weights_2 = '{}'\nboundary = {}\n", (published(name) / "transformer_2").string(),
                       boundary);
  }

  RunFile read(const std::string& name, const std::string& more, int64_t tokens,
               const std::string& weights = "") {
    const std::string text = fmt::format(kWanJob, published(name).string(), folder_.string(), more, tokens,
                                         published(weights.empty() ? name : weights).string());
    const auto document = or_throw(Document::parse(text, (folder_ / "run.toml").string()));
    std::vector<Diagnostic> problems;
    RunFile run = read_run(document, test::runtime().registry(), with_weights, problems);
    for (const auto& p : problems) ADD_FAILURE() << format(p);
    return run;
  }
  // Distance of the latents from the pipeline's; `about` receives the video's JSON.
  double apart(const RunFile& run, const std::string& name, json* about = nullptr) {
    fs::remove_all(folder_ / "film");
    JobContext context(test::runtime(), run, run.jobs.at(0), true);
    test::run_job(context);
    if (about) *about = json::parse(std::ifstream(folder_ / "film" / "videos" / "000.json"));
    return test::difference(
        read_tensors(folder_ / "film" / "videos" / "000.latents.safetensors").at("latent"),
        test::Oracle("wan_pipeline.safetensors", name).exact("latent"));
  }
  void expect_equal(const RunFile& run, const std::string& name, json* about = nullptr) {
    const double latents = apart(run, name, about);
    const test::Oracle oracle("wan_pipeline.safetensors", name);
    const auto videos = folder_ / "film" / "videos";
    EXPECT_LT(latents, 2e-5);
    const at::Tensor frames = oracle.exact("frames");
    for (int64_t i = 0; i < 3; ++i) {
      const auto got =
          decoded(read_bytes(videos / "000" / fmt::format("{:05}.png", 4 * i)), json::object())[0];
      EXPECT_LE(worst(got, frames[i]), 1) << "frame " << 4 * i;
    }
    std::printf("          %s: latents differ by %.2g\n", name.c_str(), latents);
  }

  fs::path folder_;
};

TEST_F(PublishedWan, MakesTheVideoOfDiffusersFromAPrompt) { expect_equal(read("wan_t2v", "", 8), "t2v"); }

TEST_F(PublishedWan, MakesTheVideoOfDiffusersFromAPicture) {
  const auto folder = published("wan_i2v").string();
  const auto run = read("wan_i2v",
                        fmt::format("image = '{0}/first.png'\nimage_encoder = "
                                    "'clip-vision'\nimage_encoder_weights = '{0}/image_encoder'\n",
                                    folder),
                        512);
  const JobContext context(test::runtime(), run, run.jobs.at(0), false);
  ImageEncoder encoder(context, run.jobs.at(0));
  const auto picture = decoded(read_bytes(fs::path(folder) / "first.png"), json::object())[0];
  const auto want = test::Oracle("wan_pipeline.safetensors", "i2v").exact("image")[0];
  EXPECT_LT(test::difference(encoder(picture), want), 1e-5);
  expect_equal(run, "i2v");
}

// Timesteps are 999, 900, 750 and 500. With the boundary 0.875: two steps for each expert.
TEST_F(PublishedWan, MakesTheVideoOfTwoExpertsFromAPrompt) {
  const auto run_with = [&](const std::string& more, double boundary = 0.875) {
    return read("wan_t2v", more + second_expert("wan_a14b_t2v", boundary), 8, "wan_a14b_t2v");
  };
  for (const char* resident : {"resident_experts = 2\n", "resident_experts = 1\n"}) {
    json about;
    expect_equal(run_with(std::string("guidance_2 = 4.5\n") + resident), "a14b_t2v", &about);
    EXPECT_EQ(about.at("nfe"), 4);
    EXPECT_EQ(about.at("model_calls"), 8);
    EXPECT_NE(about.at("weights").at("model"), about.at("weights").at("model_2"));
  }
  json about;
  EXPECT_GT(apart(run_with("guidance_2 = 1.0\n"), "a14b_t2v", &about), 1e-3);
  EXPECT_EQ(about.at("model_calls"), 6) << "the second expert's steps without guidance";
  EXPECT_GT(apart(run_with("guidance_2 = 4.5\n", 0.95), "a14b_t2v"), 1e-3);
}

// Each of two networks in memory computes with its own weights, also through a link, with bfloat16 too.
TEST_F(PublishedWan, TwoResidentExpertsAreThoseThatTakeTurns) {
  const auto latent = [&](const std::string& resident) {
    const auto more =
        "guidance_2 = 4.5\nprecision = 'bf16'\n" + resident + second_expert("wan_a14b_t2v", 0.875);
    apart(read("wan_t2v", more, 8, "wan_a14b_t2v"), "a14b_t2v");
    return read_tensors(folder_ / "film" / "videos" / "000.latents.safetensors").at("latent").clone();
  };
  EXPECT_TRUE(latent("resident_experts = 2\n").equal(latent("resident_experts = 1\n")));
}

// Without CLIP. The boundary, 0.9, is a timestep: it belongs to the first expert.
TEST_F(PublishedWan, MakesTheVideoOfTwoExpertsFromAPicture) {
  const auto run_with = [&](double boundary) {
    return read("wan_t2v",
                fmt::format("image = '{}'\n", (published("wan_i2v") / "first.png").string()) +
                    second_expert("wan_a14b_i2v", boundary),
                512, "wan_a14b_i2v");
  };
  expect_equal(run_with(0.9), "a14b_i2v");
  EXPECT_GT(apart(run_with(0.901), "a14b_i2v"), 1e-3);
}

// Wan 2.2's 5B: a timestep for each frame, 0 for the picture (expand_timesteps).
TEST_F(PublishedWan, MakesTheVideoOfFramesThatAreGiven) {
  expect_equal(
      read("wan_t2v", fmt::format("image = '{}'\n", (published("wan_i2v") / "first.png").string()), 512),
      "ti2v");
}

TEST_F(PublishedWan, SaysWhatASecondExpertLacks) {
  const auto said = [&](const std::string& more) -> std::string {
    const auto run = read("wan_t2v", more, 8);
    JobContext context(test::runtime(), run, run.jobs.at(0), true);
    try {
      test::run_job(context);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(said("guidance_2 = 4.0\n"), testing::HasSubstr("set its weights_2"));
  const std::string low = (published("wan_a14b_t2v") / "transformer_2").string();
  EXPECT_THAT(said("weights_2 = '" + low + "'\n"), testing::HasSubstr("set boundary, Wan 2.2 has 0.875"));
}

}  // namespace
}  // namespace kinora::core
