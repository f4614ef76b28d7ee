// kind = "generate" on the folders of published Cosmos pipelines: equals diffusers on the same weights,
// prompts and noise (tests/oracle/make_cosmos_pipeline_fixtures.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

// The folders' configurations are the components' options; the rest are the pipelines' conventions: guidance
// counts from the prompt on, the last step changes nothing, and the text is padded with zeros that the model
// attends to.
constexpr const char* kJob = R"(
[run]
out = '{1}'
seed = 3
[[job]]
name = 'film'
kind = 'generate'
prompts = ['red sea']
negative = 'blurry blue'
guidance = 3.0
guidance_convention = 'nemo'
height = 32
width = 32
format = ['latents', 'png']
sampler = {{ use = 'euler', steps = 5, final = 'sigma_min' }}
weights = '{0}/transformer'
tokenizer_weights = '{0}/vae'
text = 't5'
text_weights = '{0}/text_encoder'
words = {{ use = 'text.tokenizer', file = '{0}/tokenizer' }}
model = 'cosmos'
max_tokens = 8
pad_text = true
)";
constexpr const char* kPredict1 = R"(
frames = 9
signals = ['fps=30']
sigma_data = 0.5
loss = { use = 'edm', sigma_data = 0.5 }
tokenizer = 'cosmos'
)";
constexpr const char* kPredict2 = R"(
loss = { use = 'rectified-flow' }
tokenizer = 'wan'
)";

class PublishedCosmos : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-published-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  static fs::path published(const std::string& name) { return fs::path(KINORA_TEST_DATA) / "oracle" / name; }
  // given: latent frames that the video starts with. diffusers leaves noise of sigma_min, 0.002, on them.
  void expect_equal(const std::string& name, const std::string& more, const std::string& of_oracle,
                    int64_t given = 0) {
    const auto document =
        or_throw(Document::parse(fmt::format(kJob, published(name).string(), folder_.string()) + more,
                                 (folder_ / "run.toml").string()));
    std::vector<Diagnostic> problems;
    const RunFile run = read_run(document, test::runtime().registry(), with_weights, problems);
    for (const auto& p : problems) ADD_FAILURE() << format(p);
    JobContext context(test::runtime(), run, run.jobs.at(0), true);
    test::run_job(context);
    const test::Oracle oracle("cosmos_pipeline.safetensors", of_oracle);
    const auto videos = folder_ / "film" / "videos";
    const at::Tensor got = read_tensors(videos / "000.latents.safetensors").at("latent"),
                     want = oracle.exact("latent");
    const int64_t made = want.size(2) - given;
    const double apart = test::difference(got.narrow(2, given, made), want.narrow(2, given, made));
    EXPECT_LT(apart, 2e-5);
    std::printf("          %s: latents differ by %.2g\n", name.c_str(), apart);
    if (given > 0) {
      EXPECT_LT((got - want).narrow(2, 0, given).abs().max().item<double>(), 0.01);
      return;  // the noise is in diffusers' pixels too
    }
    const at::Tensor frames = oracle.exact("frames");
    for (int64_t i = 0; i < frames.size(0); ++i) {
      const auto frame =
          decoded(read_bytes(videos / "000" / fmt::format("{:05}.png", 4 * i)), json::object())[0];
      EXPECT_LE(worst(frame, frames[i]), 1) << "frame " << 4 * i;
    }
  }

  fs::path folder_;
};

TEST_F(PublishedCosmos, MakesTheVideoOfPredict1FromAPrompt) { expect_equal("cosmos_t2w", kPredict1, "t2w"); }

TEST_F(PublishedCosmos, MakesThePictureOfPredict2FromAPrompt) {
  expect_equal("cosmos2_t2i", kPredict2 + std::string("frames = 1\n"), "t2i");
}

TEST_F(PublishedCosmos, MakesTheVideoOfPredict2FromAPicture) {
  const auto more = fmt::format("{}frames = 9\nsignals = ['fps=16']\nimage = '{}'\n", kPredict2,
                                (published("cosmos2_v2w") / "first.png").string());
  expect_equal("cosmos2_v2w", more, "v2w", 1);
}

}  // namespace
}  // namespace kinora::core
