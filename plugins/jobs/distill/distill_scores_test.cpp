// Compares with scores written out: the frames that teacher and critic see, and a teacher of another architecture.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/distill/rollout_cache_link.hpp"
#include "plugins/jobs/distill/self_forcing.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/windowed.hpp"

namespace kinora::core::distill_scores_test {
namespace {

using namespace few_steps;
using at::Tensor;

// One layer, where the student has two.
const std::string kTeacher =
    "teacher = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\n";
const std::string kWeights =
    "guidance = 3.0\nteacher_weights = 'FOLDER/teacher.safetensors'\ncritic_weights = "
    "'FOLDER/critic.safetensors'\n";

// Both samples of the batch have this text.
Tensor text() { return sample_noise(at::empty({1, 1, 12}), 7, 0, "text").to(at::kDouble).expand({2, 1, 12}); }

std::unique_ptr<Model> critic_of(const ScratchRun& run, at::ScalarType dtype,
                                 const std::vector<const kinora_link*>& links = {}) {
  auto out = run.model("dit", "model", dtype, links);
  const at::NoGradGuard off;
  for (auto& leaf : out->chain().leaves()) leaf.tensor.mul_(0.5);  // exact in float32
  return out;
}

void load(Model& network, const NamedTensors& weights) {
  for (auto& leaf : network.chain().leaves()) leaf.tensor.detach().copy_(weights.at(leaf.name));
}

Checkpoint after_step(const ScratchRun& run, int64_t step) {
  return load_checkpoint(run.of("few") / fmt::format("checkpoints/step-{:06}", step));
}

// When a role makes windows of one video: steps done before each, and by how many frames later windows are shorter.
struct Turns {
  std::vector<int64_t> steps{0};
  int64_t overlap = 0;
};

// The last four frames of the video that the student makes on a cache, each window with its weights of then.
Tensor videos(const ScratchRun& run, const std::string& role, const Turns& turns) {
  FrameOptions rule;
  rule.teacher_forcing = true;
  rule.window = 2, rule.sink = 1;
  const ComponentUse &kv = *run.spec("few").component("cache"), &flow = *run.spec("dit").component("loss");
  auto& registry = test::runtime().registry();
  const Component cache_component = or_throw(registry.open(kv.id));
  const Options options =
      or_throw(Options::make(*cache_component.spec, cache_of_frames(rule, kv.options.values())));
  CacheInstance cache(cache_component, options);
  RolloutCacheLink link(cache.link());
  const LossInstance loss(or_throw(registry.open(flow.id)), flow.options);
  const auto student = run.model("dit", "model", at::kDouble, {link.get()});
  std::vector<double> levels;
  for (const double u : {1.0, 0.7, 0.4}) levels.push_back(3 * u / (1 + 2 * u));
  SelfForcing forcing(*student, cache, *or_throw(registry.find("model", "model/dit")), loss,
                      {.rule = rule, .levels = levels, .stream = at::kDouble, .seed = kSeed});
  const int64_t later = 4 - turns.overlap, all = 4 + later * static_cast<int64_t>(turns.steps.size() - 1);
  SelfForcing::Video video = forcing.begin({2, 2, all, 2, 4}, 2 * turns.steps[0], "distill.rollout." + role);
  std::vector<Tensor> windows;
  for (const int64_t step : turns.steps) {
    if (!windows.empty()) {
      load(*student, after_step(run, step).weights);
      forcing.forget(video);
    }
    const double u = sample_uniform({1}, kSeed, step, "distill.exit." + role).item<double>();
    const std::vector<int64_t> exits(4, static_cast<int64_t>(3 * u));
    windows.push_back(forcing.next(video, windows.empty() ? 4 : later, {{"text", text()}}, exits).x);
  }
  return at::cat(windows, 2).narrow(2, all - 4, 4);
}

struct Noisy {
  Tensor x, noise, level, noisy;
};

Noisy noisy_videos(const ScratchRun& run, const std::string& role, const Turns& turns = {}) {
  const int64_t first = 2 * turns.steps.back();  // of the two samples of the last step
  const Tensor x = videos(run, role, turns), noise = sample_noise(x, kSeed, first, "distill.noise." + role),
               u = sample_uniform({2}, kSeed, first, "distill.level." + role),
               level = (5 * u / (1 + 4 * u)).clamp(0.02, 0.98), s = level.view({2, 1, 1, 1, 1});
  return {x, noise, level, (1 - s) * x + s * noise};
}

// The velocity of all frames at once, by the rule of the network's chain.
Tensor velocity(Model& network, const Noisy& in, const Tensor& with) {
  const at::NoGradGuard off;
  return network.forward({{"latent", in.noisy}, {"timestep", 1000 * in.level}, {"text", with}}).at(0);
}

Tensor score(Model& network, const Noisy& in, const Tensor& with) {
  return in.noisy - in.level.view({2, 1, 1, 1, 1}) * velocity(network, in, with);
}

double loss_of(Model& critic, const Noisy& in) {
  return (velocity(critic, in, text()) - (in.noise - in.x)).square().mean().item<double>();
}

// A run whose teacher and critic have weights of their own.
std::unique_ptr<ScratchRun> run_of_scores(const std::string& lines, bool is_other = false) {
  auto run = distillation(lines + kWeights + (is_other ? kTeacher : ""));
  write_latents(run->of("latents"), 1);
  const auto teacher = is_other ? run->model("few", "teacher") : run->model("dit");
  ScratchRun::save(*teacher, run->folder() / "teacher.safetensors");
  ScratchRun::save(*critic_of(*run, at::kFloat), run->folder() / "critic.safetensors");
  distilled(*run);
  return run;
}

// The mean distance of the two scores in the last frames.
double apart_in(Model& teacher, Model& critic, const Noisy& in, int64_t frames) {
  const Tensor none = score(teacher, in, at::zeros_like(text())),
               real = none + 3 * (score(teacher, in, text()) - none);
  return (score(critic, in, text()) - real).narrow(2, 4 - frames, frames).abs().mean().item<double>();
}

// The first step's, with the links of the networks that give them.
void expect_scores(const ScratchRun& run, bool is_other, const std::vector<const kinora_link*>& of_teacher,
                   const std::vector<const kinora_link*>& of_critic) {
  const auto teacher = is_other ? run.model("few", "teacher", at::kDouble, of_teacher)
                                : run.model("dit", "model", at::kDouble, of_teacher),
             critic = critic_of(run, at::kDouble, of_critic);
  const double apart = apart_in(*teacher, *critic, noisy_videos(run, "student"), 4);
  const json line = run.metrics("few").at(0);
  EXPECT_NEAR(line.at("critic").get<double>() / loss_of(*critic, noisy_videos(run, "critic")), 1, 1e-9)
      << is_other;
  EXPECT_NEAR(line.at("score_distance").get<double>() / apart, 1, 1e-9) << is_other;
}

TEST(DistillScores, OfWholeVideosAreThoseOfTheNetworksWithoutChunks) {
  for (const bool is_other : {false, true})
    expect_scores(*run_of_scores("steps = 1\nevery = 1\nscores = 'bidirectional'\n", is_other), is_other, {},
                  {});
}

// The student's rule with its mask written out: a frame sees itself, the one before and the first, all noisy.
class NoisyChunks final : public kinora::Link<Tensor> {
 public:
  NoisyChunks() : Link(KINORA_LEVEL_CACHE) { skip_inherited<NoisyChunks>(); }
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    if (!how.kv_seq) return next.attention(q, k, v, how);
    const int64_t tokens = q.size(1);
    const Tensor frame = at::floor_divide(at::arange(tokens), tokens / 4), i = frame.unsqueeze(1),
                 j = frame.unsqueeze(0);
    return test::masked_attention(q, k, v, how.scale, (j <= i) & ((j > i - 2) | (j < 1)));
  }
};

TEST(DistillScores, OfNoisyChunksSeeTheNoisyOnesBeforeThem) {
  const NoisyChunks teacher, critic;
  expect_scores(*run_of_scores("steps = 1\nevery = 1\nscores = 'causal-noisy'\n"), false, {teacher.get()},
                {critic.get()});
}

// The second windows of the critic's videos and of the student's, by the networks before these steps.
TEST(DistillScores, OfAWindowAreThoseOfAVideo) {
  for (const int64_t overlap : {0, 2}) {
    const auto run =
        run_of_scores(fmt::format("steps = 4\nevery = 2\nvideo_windows = 2\nwindow_overlap = {}\n"
                                  "scores = 'bidirectional'\n",
                                  overlap));
    const auto teacher = run->model("dit", "model", at::kDouble), critic = critic_of(*run, at::kDouble);
    const auto before = [&](int64_t step) {
      Checkpoint then = after_step(*run, step);
      load(*critic, taken(then.more, "critic.weight."));
      return run->metrics("few").at(static_cast<size_t>(step));
    };
    const json second = before(1);
    EXPECT_EQ(second.at("window").get<int64_t>(), 2);
    EXPECT_NEAR(
        second.at("critic").get<double>() / loss_of(*critic, noisy_videos(*run, "critic", {{0, 1}, overlap})),
        1, 1e-9)
        << overlap;
    const json fourth = before(3);
    const Noisy student = noisy_videos(*run, "student", {{1, 3}, overlap});
    EXPECT_NEAR(fourth.at("score_distance").get<double>() / apart_in(*teacher, *critic, student, 4 - overlap),
                1, 1e-9)
        << overlap;
  }
}

TEST(DistillScores, RefuseNetworksThatCannotGiveThem) {
  const auto said = [](const std::string& lines) {
    const auto run = distillation("steps = 1\nevery = 1\n" + lines);
    return test::refusal([&] { distilled(*run); });
  };
  EXPECT_THAT(said("scores = 'bidirectional'\n"),
              testing::HasSubstr("set teacher_weights and critic_weights"));
  EXPECT_THAT(said(kTeacher), testing::HasSubstr("teacher: set its weights"));
  for (const std::string& lines : {kTeacher, std::string("scores = 'bidirectional'\n")})
    EXPECT_THAT(said("method = 'consistency'\n" + lines),
                testing::HasSubstr("only method = \"dmd\" has scores"));
}

}  // namespace
}  // namespace kinora::core::distill_scores_test
