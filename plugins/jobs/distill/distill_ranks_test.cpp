// Distillation on several ranks against one process: rollouts, both networks' losses and their gradients.
#include <algorithm>

#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::core::distill_ranks {
namespace {

namespace fs = std::filesystem;
using test::Rank;
using test::ScratchRun;

fs::path checkpoint(const ScratchRun& run, int64_t step) {
  return run.of("few") / fmt::format("checkpoints/step-{:06}", step);
}

struct Outcome {
  std::vector<json> lines;
  // Gradients of the first step that changes the network: AdamW's first moments, whose beta1 is 0.
  NamedTensors student, critic;
};

std::unique_ptr<ScratchRun> distilled(const Rank& me, const std::string& parallel, const std::string& more) {
  const std::string every = more.find("every = ") == std::string::npos ? "every = 2\n" : "";
  auto run = few_steps::distillation("steps = 3\n" + every + "parallel = " + parallel + "\n" + more);
  few_steps::distilled(*run, me.rank == 0);
  return run;
}

Outcome outcome(const Rank& me, const std::string& parallel, const std::string& more) {
  const auto run = distilled(me, parallel, more);
  if (me.rank != 0) return {};
  Checkpoint first = load_checkpoint(checkpoint(*run, 1)), second = load_checkpoint(checkpoint(*run, 2));
  return {run->metrics("few"), taken(second.optimizer, "first."), taken(first.more, "critic.first.")};
}

void expect_near(const NamedTensors& got, const NamedTensors& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (const auto& [name, t] : want) {
    const at::Tensor all = t.to(at::kDouble), apart = (got.at(name) - all).abs().max();
    EXPECT_LT(apart.item<double>(), 1e-10 * std::max(all.abs().max().item<double>(), 1e-3)) << where << name;
  }
}

// figures: of distribution matching, the critic's in each step and the student's in the second, unless `more` has
// another `every`. has_critic: the method's.
void expect_as_one_process(const std::vector<const char*>& strategies, const std::string& more,
                           size_t figures = 9, bool has_critic = true) {
  for (const char* parallel : strategies)
    test::on_ranks(2, [&](const Rank& me) {
      me.launched();
      const Outcome together = outcome(me, parallel, more);
      if (me.rank != 0) return;
      Rank::alone();
      const Outcome alone = outcome({0, 1, me.folder, 0}, "['single']", more);
      ASSERT_EQ(together.lines.size(), 3U);
      size_t compared = 0;
      for (size_t step = 0; step < 3; ++step)
        for (const char* name :
             {"loss", "gradient_norm", "score_distance", "critic", "critic_gradient_norm"}) {
          if (!alone.lines[step].contains(name)) continue;
          const double want = alone.lines[step].at(name);
          EXPECT_NEAR(together.lines[step].at(name).get<double>(), want, 1e-8 * want)
              << parallel << step << name;
          ++compared;
        }
      EXPECT_EQ(compared, figures);
      EXPECT_FALSE(alone.student.empty());
      EXPECT_EQ(alone.critic.empty(), !has_critic);
      expect_near(together.student, alone.student, fmt::format("{} student ", parallel));
      expect_near(together.critic, alone.critic, fmt::format("{} critic ", parallel));
    });
}

TEST(DistillRanks, DistillAsOneProcessUnderEveryStrategy) {
  expect_as_one_process(
      {"['ddp']", "['fsdp']", "['tp']", "['cp-ulysses']", "['balanced-sp']", "['fsdp', 'recompute']"}, "");
}

TEST(DistillRanks, DistillAdaptersOnOneBaseAsOneProcess) {
  expect_as_one_process({"['fsdp', 'recompute']", "['tp']"},
                        "lora = 'rank=2 alpha=3 targets=linear_qkv,linear_proj'\n");
}

TEST(DistillRanks, DistillByBidirectionalScoresAsOneProcess) {
  expect_as_one_process({"['fsdp', 'recompute']", "['tp']", "['balanced-sp']"},
                        "scores = 'bidirectional'\nteacher_weights = 'FOLDER/dit/weights.safetensors'\n"
                        "critic_weights = 'FOLDER/dit/weights.safetensors'\n");
}

TEST(DistillRanks, DistillByNoisyCausalScoresAsOneProcess) {
  expect_as_one_process({"['balanced-sp']"}, "scores = 'causal-noisy'\nguidance = 3.0\n");
}

// The second step's windows continue the first one's videos.
TEST(DistillRanks, DistillWindowsOfLongVideosAsOneProcess) {
  expect_as_one_process({"['fsdp', 'recompute']", "['tp']", "['balanced-sp']"},
                        "every = 1\nvideo_windows = 2\n", 15);
}

TEST(DistillRanks, DistillTheTeachersStepsAsOneProcess) {
  for (const char* method : {"ode", "consistency"})
    expect_as_one_process({"['fsdp', 'recompute']", "['balanced-sp']"},
                          fmt::format("method = '{}'\nteacher_steps = 3\n", method), 6, /*has_critic=*/false);
}

// Two ranks write shards after the first of three steps; one process resumes from them, inside a video of windows.
TEST(DistillRanks, ADistillationGoesOnAtAnotherNumberOfRanks) {
  test::on_ranks(2, [](const Rank& me) {
    me.launched();
    const std::string windows = "video_windows = 4\n";
    const auto together = distilled(me, "['fsdp']", windows);
    if (me.rank != 0) return;
    Rank::alone();
    const auto alone = few_steps::distillation("steps = 3\nevery = 2\nparallel = ['fsdp']\n" + windows);
    fs::create_directories(checkpoint(*alone, 1).parent_path());
    fs::copy(checkpoint(*together, 1), checkpoint(*alone, 1), fs::copy_options::recursive);
    few_steps::distilled(*alone);
    ASSERT_EQ(alone->metrics("few").size(), 2U) << "the steps after the first";
    const Checkpoint got = load_checkpoint(checkpoint(*alone, 3)),
                     want = load_checkpoint(checkpoint(*together, 3));
    expect_near(got.weights, want.weights, "student ");
    expect_near(got.optimizer, want.optimizer, "its optimizer ");
    expect_near(got.ema.at("0.9"), want.ema.at("0.9"), "its average ");
    expect_near(got.more, want.more, "critic, its optimizer and the videos ");
    expect_near(read_tensors(alone->of("few") / "weights.safetensors"),
                read_tensors(together->of("few") / "weights.safetensors"), "result ");
  });
}

}  // namespace
}  // namespace kinora::core::distill_ranks
