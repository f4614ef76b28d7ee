// kind = "distill": a small training, its resume, and what its losses must be.
#include <gmock/gmock.h>

#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::distilling {
namespace {

using namespace few_steps;

fs::path checkpoint(const ScratchRun& run, int64_t step) {
  return run.of("few") / fmt::format("checkpoints/step-{:06}", step);
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(DistillJob, ResumesStudentAndCriticToTheSameBytes) {
  const std::string lines = "steps = 2\nevery = 2\n";
  const auto whole = distillation(lines), resumed = distillation(lines);
  distilled(*whole);
  fs::create_directories(checkpoint(*resumed, 1).parent_path());
  fs::copy(checkpoint(*whole, 1), checkpoint(*resumed, 1), fs::copy_options::recursive);
  distilled(*resumed);
  for (const char* name : {"weights", "optimizer", "ema-0.9", "more"}) {
    const std::string file = std::string(name) + ".safetensors",
                      want = bytes_of(checkpoint(*whole, 2) / file);
    EXPECT_FALSE(want.empty()) << file;
    EXPECT_TRUE(want == bytes_of(checkpoint(*resumed, 2) / file)) << file;
  }
  const Checkpoint before = load_checkpoint(checkpoint(*whole, 1)),
                   after = load_checkpoint(checkpoint(*whole, 2));
  EXPECT_EQ(after.state.optimizer_steps, 1) << "the student's, in every second step";
  EXPECT_EQ(after.more.at("critic.steps").item<int64_t>(), 2);
  size_t changed = 0;
  for (const auto& [name, t] : before.weights) changed += at::equal(t, after.weights.at(name)) ? 0 : 1;
  EXPECT_GT(changed, before.weights.size() / 2) << "the student's weights after its step";
}

// Teacher and critic begin as one network, and guidance of 1 is the text's prediction alone.
TEST(DistillJob, EqualScoresGiveNoGradient) {
  const auto equal = distillation("steps = 1\nevery = 1\nguidance = 1.0\n"),
             guided = distillation("steps = 1\nevery = 1\nguidance = 3.0\n");
  distilled(*equal);
  distilled(*guided);
  for (const char* name : {"loss", "gradient_norm", "score_distance"}) {
    EXPECT_EQ(equal->metrics("few").at(0).at(name).get<double>(), 0) << name;
    EXPECT_GT(guided->metrics("few").at(0).at(name).get<double>(), 0) << name;
  }
  EXPECT_GT(equal->metrics("few").at(0).at("critic_gradient_norm").get<double>(), 0);
}

TEST(DistillJob, IsTheSameInMicrobatches) {
  for (const std::string reuse : {"", "reuse_rollouts = true\n"}) {
    const auto one = distillation("steps = 2\nevery = 1\n" + reuse),
               two = distillation("steps = 2\nevery = 1\naccumulate = 2\n" + reuse);
    distilled(*one);
    distilled(*two);
    for (size_t step : {0, 1})
      for (const char* name :
           {"loss", "gradient_norm", "critic", "critic_gradient_norm", "latent_mean", "latent_std"})
        EXPECT_NEAR(one->metrics("few").at(step).at(name).get<double>() /
                        two->metrics("few").at(step).at(name).get<double>(),
                    1, 1e-8)
            << reuse << name << step;
  }
}

// The student is updated in the second step alone; its own loss does not depend on what the critic learns there.
TEST(DistillJob, ReusedRolloutsChangeTheCriticsVideosInTheStudentsSteps) {
  const std::string lines = "steps = 2\nevery = 2\nguidance = 3.0\n";
  const auto own = distillation(lines), reused = distillation(lines + "reuse_rollouts = true\n");
  distilled(*own);
  distilled(*reused);
  const auto of = [](const ScratchRun& run, size_t step, const char* name) {
    return run.metrics("few").at(step).at(name).get<double>();
  };
  EXPECT_EQ(of(*own, 0, "critic"), of(*reused, 0, "critic"));
  for (const char* name : {"loss", "gradient_norm", "score_distance"})
    EXPECT_EQ(of(*own, 1, name), of(*reused, 1, name)) << name;
  EXPECT_NE(of(*own, 1, "critic"), of(*reused, 1, "critic"));
}

// min(0.9, (1 + n) / (10 + n)) of the average stays in update n + 1.
TEST(DistillJob, AveragesTheStudentAlone) {
  const auto run = distillation("steps = 2\nevery = 1\n");
  distilled(*run);
  const auto start = read_tensors(run->of("dit") / "weights.safetensors"),
             result = read_tensors(run->of("few") / "weights.safetensors");
  const Checkpoint one = load_checkpoint(checkpoint(*run, 1)), two = load_checkpoint(checkpoint(*run, 2));
  EXPECT_EQ(two.state.ema_updates, 2);
  for (const auto& [name, w] : two.weights) {
    const at::Tensor first = start.at(name).to(at::kDouble) * 0.1 + one.weights.at(name) * 0.9,
                     want = first * 2 / 11 + w * 9 / 11;
    EXPECT_LT((two.ema.at("0.9").at(name) - want).abs().max().item<double>(), 1e-12) << name;
    EXPECT_TRUE(at::equal(two.ema.at("0.9").at(name), result.at(name))) << name;
  }
  for (const auto& [name, t] : two.more) EXPECT_FALSE(name.starts_with("critic.ema")) << name;
}

TEST(DistillJob, CountsTheStepsAtWhichTheStudentsVideosEnd) {
  const auto run = distillation("steps = 6\nevery = 2\n");
  distilled(*run);
  std::vector<int64_t> want(3);
  for (int64_t step = 0; step < 6; ++step) {
    const double u = sample_uniform({1}, kSeed, step, "distill.exit.student").item<double>();
    if (step % 2 == 1) ++want.at(static_cast<size_t>(3 * u));
    const json line = run->metrics("few").at(static_cast<size_t>(step));
    EXPECT_EQ(line.at("exits").get<std::vector<int64_t>>(), want);
    EXPECT_GT(line.at("latent_std").get<double>(), 0);
    EXPECT_FALSE(line.contains("latent_square"));
  }
}

// With the samples' own text as the negative one, guidance changes nothing, and the scores of equal networks agree.
TEST(DistillJob, GuidesTheTeacherAwayFromTheNegativeText) {
  for (const bool is_given : {true, false}) {
    const auto run = distillation(std::string("steps = 1\nevery = 1\nguidance = 3.0\n") +
                                  (is_given ? "negative = 'red sea'\n" : ""));
    ScratchRun::save(*run->model("latents", "text"), run->folder() / "text.safetensors");
    const JobContext context = run->context("latents");
    TextEncoder encoder(context, run->spec("latents"));
    write_latents(run->of("latents"), 3, encoder("red sea"));
    distilled(*run);
    const double apart = run->metrics("few").at(0).at("score_distance");
    EXPECT_EQ(apart == 0, is_given) << apart;
  }
}

TEST(DistillJob, RefusesWhatMakesNoVideoChunkByChunk) {
  const auto said = [](const std::string& lines, const std::string& student = kStudent) {
    const auto run = distillation("steps = 5\n" + lines, student);
    std::ofstream(run->folder() / "model_index.json") << "{}";
    return test::refusal([&] { distilled(*run); });
  };
  EXPECT_THAT(said("", kStudent.substr(kStudent.find("loss"))),
              testing::HasSubstr("set teacher_forcing = true there"));
  EXPECT_THAT(said("", kStudent + "shots = 2\n"), testing::HasSubstr("trains on shots = 2"));
  for (const char* cache : {"'kv-nvfp4'", "'kv-fp8'", "{ use = 'kv', store = 'nvfp4' }"})
    EXPECT_THAT(said(fmt::format("cache = {}\n", cache)), testing::HasSubstr("rollouts on rounded keys"));
  EXPECT_THAT(said("every = 6\n"), testing::HasSubstr("the student is never updated in 5 steps"));
  const auto normalised = [&](int64_t chunk, int64_t first) {
    return said("every = 1\nloss = { use = 'dmd', normalizer = 'chunk', chunk = 3 }\n",
                fmt::format("{}chunk = {}\nfirst_chunk = {}\n", kStudent, chunk, first));
  };
  EXPECT_EQ(normalised(3, 1), "nothing was refused");
  EXPECT_THAT(normalised(3, 0), testing::HasSubstr("4 latent frames in chunks of 3, the first of 3"));
  EXPECT_THAT(normalised(2, 1), testing::HasSubstr("the loss has chunk = 3"));
  EXPECT_THAT(normalised(3, 2), testing::HasSubstr("of which the first may have one frame"));
  EXPECT_THAT(said("level_min = 0.99\n"),
              testing::HasSubstr("level_min = 0.99 must be below level_max = 0.98"));
  EXPECT_THAT(said("teacher_weights = 'FOLDER'\n"),
              testing::HasSubstr("this is a whole pipeline, and teacher_weights takes one network"));
}

}  // namespace
}  // namespace kinora::core::distilling
