// kind = "distill" on videos of several windows: which step makes which, resume, and what is refused.
#include <gmock/gmock.h>

#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::distill_windows_test {
namespace {

using namespace few_steps;

fs::path folder_of_step(const ScratchRun& run, int64_t step) {
  return run.of("few") / fmt::format("checkpoints/step-{:06}", step);
}

std::string contents_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The critic's videos begin in steps 1 and 4, the student's in step 2.
TEST(DistillWindows, ResumeInsideAVideoToTheSameBytes) {
  const std::string lines = "steps = 5\nevery = 2\nguidance = 3.0\nvideo_windows = 3\n";
  const auto whole = distillation(lines);
  distilled(*whole);
  for (const int64_t step : {1, 2, 4}) {
    const auto resumed = distillation(lines);
    fs::create_directories(folder_of_step(*resumed, step).parent_path());
    fs::copy(folder_of_step(*whole, step), folder_of_step(*resumed, step), fs::copy_options::recursive);
    distilled(*resumed);
    ASSERT_EQ(resumed->metrics("few").size(), static_cast<size_t>(5 - step));
    for (const char* name : {"weights", "optimizer", "ema-0.9", "more"}) {
      const std::string file = std::string(name) + ".safetensors",
                        want = contents_of(folder_of_step(*whole, 5) / file);
      EXPECT_FALSE(want.empty()) << file;
      EXPECT_TRUE(want == contents_of(folder_of_step(*resumed, 5) / file)) << file << " from " << step;
    }
  }
}

// Four latent frames a window, of two samples.
TEST(DistillWindows, KeepTheLatentsOfVideosThatGoOn) {
  const auto run = distillation("steps = 5\nevery = 2\nvideo_windows = 3\n");
  distilled(*run);
  const auto frames = [&](int64_t step, const char* role) -> int64_t {
    const auto more = load_checkpoint(folder_of_step(*run, step)).more;
    const auto found = more.find(fmt::format("task.{}.latents", role));
    if (found == more.end()) return 0;
    EXPECT_EQ(found->second.size(0), 2);
    return found->second.size(2);
  };
  const std::vector<int64_t> of_critic{4, 8, 0, 4, 8}, of_student{0, 4, 4, 8, 8};
  for (int64_t step = 1; step <= 5; ++step) {
    EXPECT_EQ(frames(step, "critic"), of_critic.at(static_cast<size_t>(step - 1))) << step;
    EXPECT_EQ(frames(step, "student"), of_student.at(static_cast<size_t>(step - 1))) << step;
    const json line = run->metrics("few").at(static_cast<size_t>(step - 1));
    EXPECT_EQ(line.at("window").get<int64_t>(), (step - 1) % 3 + 1);
  }
}

TEST(DistillWindows, BeginAsAVideoOfOneWindowAndGoOnOtherwise) {
  const std::string lines = "steps = 2\nevery = 1\nguidance = 3.0\n";
  const auto one = distillation(lines), two = distillation(lines + "video_windows = 2\n");
  distilled(*one);
  distilled(*two);
  for (const char* name : {"loss", "gradient_norm", "score_distance", "critic", "critic_gradient_norm"}) {
    const auto of = [&](const ScratchRun& run, size_t step) {
      return run.metrics("few").at(step).at(name).get<double>();
    };
    EXPECT_EQ(of(*one, 0), of(*two, 0)) << name;
    EXPECT_TRUE(std::isfinite(of(*two, 1))) << name;
    EXPECT_NE(of(*one, 1), of(*two, 1)) << name;
  }
  EXPECT_FALSE(one->metrics("few").at(0).contains("window"));
}

TEST(DistillWindows, AreTheSameInMicrobatches) {
  const std::string lines = "steps = 3\nevery = 1\nguidance = 3.0\nvideo_windows = 2\nwindow_overlap = 2\n";
  const auto one = distillation(lines), two = distillation(lines + "accumulate = 2\n");
  distilled(*one);
  distilled(*two);
  for (size_t step : {0, 1, 2})
    for (const char* name : {"loss", "gradient_norm", "critic", "critic_gradient_norm", "latent_std"})
      EXPECT_NEAR(one->metrics("few").at(step).at(name).get<double>() /
                      two->metrics("few").at(step).at(name).get<double>(),
                  1, 1e-8)
          << name << step;
}

TEST(DistillWindows, AreRefusedWhereTheyCannotBe) {
  const auto said = [](const std::string& lines, const std::string& student = kStudent) {
    const auto run = distillation("steps = 5\nvideo_windows = 3\n" + lines, student);
    return test::refusal([&] { distilled(*run); });
  };
  EXPECT_THAT(said("method = 'consistency'\n"), testing::HasSubstr("only method = \"dmd\" makes videos"));
  EXPECT_THAT(said("window_overlap = 4\n"),
              testing::HasSubstr("whole chunks of 1 and below the 4 latent frames"));
  EXPECT_THAT(said("window_overlap = 1\n", kStudent + "chunk = 2\n"),
              testing::HasSubstr("whole chunks of 2"));
  EXPECT_THAT(said("reuse_rollouts = true\n"), testing::HasSubstr("each continue videos of their own"));
  EXPECT_THAT(said("", kStudent + "chunk = 3\n"),
              testing::HasSubstr("4 latent frames of a sample, which are not whole chunks of 3"));
  EXPECT_THAT(said("", kStudent + "chunk = 2\nfirst_chunk = 1\n"), testing::HasSubstr("the first of 1"));
  std::string learnt = kStudent;
  const std::string end = "adaln_lora = 4 }";
  learnt.replace(learnt.find(end), end.size(),
                 "adaln_lora = 4, learnable_pos_embed = true, max_size = [8, 8, 8] }");
  EXPECT_THAT(said("", learnt),
              testing::HasSubstr("12 latent frames, and model/dit has learnt 8 positions in time"));
}

}  // namespace
}  // namespace kinora::core::distill_windows_test
