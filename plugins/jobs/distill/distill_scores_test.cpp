// What teacher and critic see, and a teacher of another architecture: the scores written out.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/distill/rollout_cache_link.hpp"
#include "plugins/jobs/distill/self_forcing.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::distill_scores_test {
namespace {

using namespace few_steps;
using at::Tensor;

// One layer, where the student has two.
const std::string kTeacher =
    "teacher = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\n";
const std::string kBidirectional =
    "steps = 1\nevery = 1\nguidance = 3.0\nscores = 'bidirectional'\n"
    "teacher_weights = 'FOLDER/teacher.safetensors'\ncritic_weights = 'FOLDER/critic.safetensors'\n";

// Both samples of the batch have this text.
Tensor text() { return sample_noise(at::empty({1, 1, 12}), 7, 0, "text").to(at::kDouble).expand({2, 1, 12}); }

std::unique_ptr<Model> critic_of(const ScratchRun& run, at::ScalarType dtype) {
  auto out = run.model("dit", "model", dtype);
  const at::NoGradGuard off;
  for (auto& leaf : out->chain().leaves()) leaf.tensor.mul_(0.5);  // exact in float32
  return out;
}

// The student's videos of the first step, on a cache.
Tensor videos(const ScratchRun& run, const std::string& role) {
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
  const double u = sample_uniform({1}, kSeed, 0, "distill.exit." + role).item<double>();
  return forcing
      .roll_out({{"text", text()}}, {2, 2, 4, 2, 4}, std::vector<int64_t>(4, static_cast<int64_t>(3 * u)), 0,
                "distill.rollout." + role)
      .x;
}

struct Noisy {
  Tensor x, noise, level, noisy;
};

Noisy noisy_videos(const ScratchRun& run, const std::string& role) {
  const Tensor x = videos(run, role), noise = sample_noise(x, kSeed, 0, "distill.noise." + role),
               u = sample_uniform({2}, kSeed, 0, "distill.level." + role),
               level = (5 * u / (1 + 4 * u)).clamp(0.02, 0.98), s = level.view({2, 1, 1, 1, 1});
  return {x, noise, level, (1 - s) * x + s * noise};
}

// The velocity of all frames at once: the network's own rule, without chunks.
Tensor velocity(Model& network, const Noisy& in, const Tensor& with) {
  const at::NoGradGuard off;
  return network.forward({{"latent", in.noisy}, {"timestep", 1000 * in.level}, {"text", with}}).at(0);
}

Tensor score(Model& network, const Noisy& in, const Tensor& with) {
  return in.noisy - in.level.view({2, 1, 1, 1, 1}) * velocity(network, in, with);
}

TEST(DistillScores, OfWholeVideosAreThoseOfTheNetworksWithoutChunks) {
  for (const bool is_other : {false, true}) {
    const auto run = distillation(kBidirectional + (is_other ? kTeacher : ""));
    write_latents(run->of("latents"), 1);
    const auto teacher_of = [&](at::ScalarType dtype) {
      return is_other ? run->model("few", "teacher", dtype) : run->model("dit", "model", dtype);
    };
    ScratchRun::save(*teacher_of(at::kFloat), run->folder() / "teacher.safetensors");
    ScratchRun::save(*critic_of(*run, at::kFloat), run->folder() / "critic.safetensors");
    distilled(*run);
    const auto teacher = teacher_of(at::kDouble), critic = critic_of(*run, at::kDouble);
    const Noisy of_critic = noisy_videos(*run, "critic"), of_student = noisy_videos(*run, "student");
    const double loss = (velocity(*critic, of_critic, text()) - (of_critic.noise - of_critic.x))
                            .square()
                            .mean()
                            .item<double>();
    const Tensor none = score(*teacher, of_student, at::zeros_like(text())),
                 real = none + 3 * (score(*teacher, of_student, text()) - none);
    const double apart = (score(*critic, of_student, text()) - real).abs().mean().item<double>();
    const json line = run->metrics("few").at(0);
    EXPECT_NEAR(line.at("critic").get<double>() / loss, 1, 1e-9) << is_other;
    EXPECT_NEAR(line.at("score_distance").get<double>() / apart, 1, 1e-9) << is_other;
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
