// A generate job with the result of a distill job.
#include <gmock/gmock.h>

#include "core/torch/open.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using namespace few_steps;

// A distill job and, after it, the generate job `fast`, with these lines.
std::unique_ptr<ScratchRun> run_of(const std::string& lines) {
  auto run = distillation(
      "steps = 1\nevery = 1\nguidance = 3.0\n\n[[job]]\nname = 'fast'\nkind = 'generate'\n"
      "prompts = ['red sea']\nformat = ['latents']\nprecision = 'fp64'\nfps = 8.0\n" +
      lines);
  ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
  ScratchRun::save(*run->model("latents", "text"), run->folder() / "text.safetensors");
  return run;
}

void generate(const ScratchRun& run) {
  offer_tensors(torch_tensors());  // as a program does: the sampler draws noise
  JobContext context = run.context("fast");
  test::run_job(context);
}

at::Tensor latent_of(const ScratchRun& run) {
  return read_tensors(run.of("fast") / "videos/000.latents.safetensors").at("latent").to(at::kDouble).clone();
}

// The video of a new run whose distill job has run.
at::Tensor generated(const std::string& lines) {
  const auto run = run_of(lines);
  distilled(*run);
  generate(*run);
  return latent_of(*run);
}

const std::string kSteps = "sampler = { use = 'flow-renoise', timesteps = [1000, 700, 400], shift = 3.0 }\n";

TEST(DistilledVideo, IsThatOfTheStudentsWeightsAndSteps) {
  const at::Tensor got = generated("input = ['few', 'tokenizer']\n"),
                   want = generated(
                       "input = ['dit', 'tokenizer']\nweights = 'FOLDER/few/weights.safetensors'\n" + kSteps),
                   before = generated("input = ['dit', 'tokenizer']\n" + kSteps);
  EXPECT_TRUE(at::equal(got, want));
  EXPECT_GT((got - before).abs().max().item<double>(), 1e-6) << "equal weights would prove nothing";
}

TEST(DistilledVideo, HasTheSamplerOfTheDistillJobUnlessTheJobHasItsOwn) {
  const auto taken = run_of("input = ['few', 'tokenizer']\n");
  const ComponentUse& use = *taken->spec("fast").component("sampler");
  EXPECT_EQ(use.id, "sampler/flow-renoise");
  EXPECT_EQ(use.options.values(), taken->spec("few").component("sampler")->options.values());
  const auto own = run_of("input = ['few', 'tokenizer']\nsampler = { use = 'unipc', steps = 2 }\n");
  EXPECT_EQ(own->spec("fast").component("sampler")->id, "sampler/unipc");
  EXPECT_EQ(own->spec("film").component("sampler")->id, "sampler/edm-heun");
}

TEST(DistilledVideo, RefusesWhatTheTrainJobDecidesAndASecondModel) {
  const auto said = [](const std::string& lines) {
    const auto run = run_of(lines);
    return test::refusal([&] { generate(*run); });
  };
  EXPECT_THAT(said("input = ['few', 'tokenizer']\nteacher_forcing = true\n"),
              testing::HasSubstr("teacher_forcing is the train job's; leave it out"));
  EXPECT_THAT(said("input = ['few', 'dit', 'tokenizer']\n"),
              testing::HasSubstr("jobs 'few' and 'dit' each trained a model"));
}

}  // namespace
}  // namespace kinora::core
