// The ways of distilling before distribution matching: their losses' gradients written out, and what continues them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::causal_starts_test {
namespace {

using namespace few_steps;
using at::Tensor;

constexpr int64_t T = 4;
constexpr double kRate = 0.01, kEps = 1e-3;  // AdamW's, whose beta1 is 0
const std::string kPlain = "weight_decay = 0.0\nclip_norm = 0.0\nguidance = 3.0\n";
const std::string kOde = kPlain + "method = 'ode'\nteacher_steps = 3\n",
                  kConsistency = kPlain + "method = 'consistency'\nteacher_steps = 4\nshift = 2.0\n";

// Four chunks of a frame, or a first one of a frame and a second one of three.
std::vector<FrameOptions> rules() {
  FrameOptions one;
  one.teacher_forcing = true;
  one.window = 2, one.sink = 1;
  FrameOptions three = one;
  three.chunk = 3, three.first_chunk = 1;
  return {one, three};
}

// Whatever is drawn is this sample.
std::unique_ptr<ScratchRun> of_one_sample(const std::string& lines, const FrameOptions& rule = {}) {
  auto run = distillation(
      lines, fmt::format("{}chunk = {}\nfirst_chunk = {}\n", kStudent, rule.chunk, rule.first_chunk));
  write_latents(run->of("latents"), 1);
  return run;
}

Tensor text() { return sample_noise(at::empty({1, 1, 12}), 7, 0, "text").to(at::kDouble); }

// As jobs normalise it, in float32.
Tensor latent() {
  const auto by_channel = [](float a, float b) { return at::tensor({a, b}).view({1, 2, 1, 1, 1}); };
  const Tensor x = sample_noise(at::empty({1, 2, 4, 2, 4}), 7, 0, "latent");
  return ((x - by_channel(0.25F, -0.5F)) / by_channel(2, 0.5F)).to(at::kDouble);
}

// The network of the run with teacher forcing, in float64.
std::unique_ptr<Model> network_of(const ScratchRun& run, const FrameOptions& rule) {
  auto out = run.model("dit", "model", at::kDouble);
  out->chain().set_frames(training_rule(rule));
  return out;
}

void set_weights(Model& network, const NamedTensors& to) {
  const at::NoGradGuard off;
  for (auto& leaf : network.chain().leaves()) leaf.tensor.copy_(to.at(leaf.name));
}

// x0 = x - s v for the noisy frames [1, C, T, H, W] at levels [T], each after the clean ones before it.
Tensor estimate(Model& network, const Tensor& clean, const Tensor& noisy, const Tensor& levels,
                const Tensor& text) {
  const Tensor s = levels.view({1, T});
  const Tensor out = network
                         .forward({{"latent", at::cat({clean, noisy}, 2)},
                                   {"timestep", at::cat({at::zeros_like(s), s}, 1) * 1000},
                                   {"text", text}})
                         .at(0);
  return noisy - s.view({1, 1, T, 1, 1}) * out.narrow(2, T, T);
}

Tensor guided(Model& network, const Tensor& clean, const Tensor& noisy, const Tensor& levels) {
  const at::NoGradGuard off;
  const Tensor none = estimate(network, clean, noisy, levels, at::zeros_like(text()));
  return none + 3 * (estimate(network, clean, noisy, levels, text()) - none);
}

// One Euler step of a rectified flow, whose x is (1 - s) x0 + s noise.
Tensor euler(const Tensor& x, const Tensor& x0, const Tensor& from, const Tensor& to) {
  const Tensor share = (to / from).view({1, 1, T, 1, 1});
  return x0 + share * (x - x0);
}

NamedTensors weights_after(const ScratchRun& run, int64_t step, bool averages = false) {
  Checkpoint saved = load_checkpoint(run.of("few") / fmt::format("checkpoints/step-{:06}", step));
  return averages ? saved.ema.at("0.9") : saved.weights;
}

// The change of a step of AdamW with beta1 = beta2 = 0 is rate g / (|g| + eps).
void expect_step(Model& network, const NamedTensors& before, const NamedTensors& after) {
  double worst = 0;
  for (auto& leaf : network.chain().leaves()) {
    const Tensor u = (before.at(leaf.name).to(at::kDouble) - after.at(leaf.name)) / kRate,
                 got = kEps * u / (1 - u.abs()), want = leaf.tensor.grad();
    const double bound = want.abs().max().clamp_min(1e-3).item<double>();
    worst = test::worse(worst, (got - want).abs().max().item<double>() / bound);
  }
  EXPECT_LT(worst, 1e-10);
}

void zero_gradients(Model& network) {
  for (auto& leaf : network.chain().leaves()) leaf.tensor.mutable_grad() = Tensor();
}

// The step of each frame, which is its chunk's.
Tensor step_of(int64_t sample, int64_t steps, const FrameOptions& rule) {
  const bool is_long = rule.chunk == 3;
  const Tensor u = sample_uniform({1, is_long ? 2 : T}, kSeed, sample, "distill.step")[0];
  const Tensor of_frames = is_long ? at::cat({u.narrow(0, 0, 1), u.narrow(0, 1, 1).expand({3})}) : u;
  return (of_frames * static_cast<double>(steps)).floor();
}

Tensor pair(const ScratchRun& run, int64_t p) {
  return read_tensors(run.of("few") / fmt::format("pairs/{:06}.safetensors", p)).at("x").clone();
}

TEST(CausalOde, PairsAreTheGuidedTeachersEulerStepsFromNoise) {
  for (const auto& rule : rules()) {
    const auto run = of_one_sample(kOde + "steps = 1\n", rule);
    distilled(*run);
    const auto teacher = network_of(*run, rule);
    const auto level = [](double u) { return at::full({T}, 3 * u / (1 + 2 * u), at::kDouble); };
    const std::vector<Tensor> levels{level(1), level(0.7), level(0.4), level(0)};
    for (const int64_t p : {0, 1}) {
      const Tensor x = pair(*run, p);
      ASSERT_EQ(x.sizes().vec(), (std::vector<int64_t>{4, 2, 4, 2, 4}));
      for (int64_t f = 0; f < T; ++f)
        EXPECT_TRUE(at::equal(x[0].select(1, f), sample_noise(at::empty({1, 2, 2, 4}, at::kDouble), kSeed, p,
                                                              fmt::format("distill.pair.{}.0", f))[0]))
            << f;
      const Tensor end = x[3].unsqueeze(0);
      for (int64_t i = 0; i < 3; ++i) {
        const size_t at = static_cast<size_t>(i);
        const Tensor now = x[i].unsqueeze(0), x0 = guided(*teacher, end, now, levels[at]);
        EXPECT_LT((euler(now, x0, levels[at], levels[at + 1])[0] - x[i + 1]).abs().max().item<double>(),
                  1e-10)
            << "pair " << p << ", step " << i;
      }
    }
  }
}

TEST(CausalOde, HasTheGradientOfTheErrorAtTheEnd) {
  for (const auto& rule : rules()) {
    const auto run = of_one_sample(kOde + "steps = 1\n", rule);
    distilled(*run);
    const auto student = network_of(*run, rule);
    double loss = 0;
    for (const int64_t n : {0, 1}) {
      const Tensor x = pair(*run, n), end = x[3].unsqueeze(0), step = step_of(n, 3, rule).to(at::kLong);
      Tensor noisy = at::empty_like(end);
      for (int64_t f = 0; f < T; ++f) noisy[0].select(1, f).copy_(x[step[f].item<int64_t>()].select(1, f));
      const Tensor u = at::tensor({1.0, 0.7, 0.4}, at::kDouble).index_select(0, step);
      const Tensor error =
          (estimate(*student, end, noisy, 3 * u / (1 + 2 * u), text()) - end).square().mean() / 2;
      error.backward();
      loss += error.item<double>();
    }
    EXPECT_NEAR(run->metrics("few").at(0).at("loss").get<double>(), loss, 1e-10 * loss);
    expect_step(*student, read_tensors(run->of("dit") / "weights.safetensors"), weights_after(*run, 1));
  }
}

// In the second step the average is not the student any more.
TEST(CausalConsistency, HasTheGradientOfTheErrorAtTheAveragesEstimateOneStepFurther) {
  for (const auto& rule : rules()) {
    const auto run = of_one_sample(kConsistency + "steps = 2\n", rule);
    distilled(*run);
    const auto teacher = network_of(*run, rule), average = network_of(*run, rule),
               student = network_of(*run, rule);
    NamedTensors before = read_tensors(run->of("dit") / "weights.safetensors");
    const Tensor x = latent();
    for (const int64_t step : {0, 1}) {
      zero_gradients(*student);
      double loss = 0;
      for (const int64_t n : {2 * step, 2 * step + 1}) {
        const auto level = [](const Tensor& i) { return 2 * (i / 4) / (1 + i / 4); };
        const Tensor at = step_of(n, 4, rule), from = level(at + 1), to = level(at),
                     s = from.view({1, 1, T, 1, 1});
        const Tensor noisy = (1 - s) * x + s * sample_noise(x, kSeed, n, "distill.noise"),
                     next = euler(noisy, guided(*teacher, x, noisy, from), from, to),
                     target = estimate(*average, x, next, to, text()).detach();
        const Tensor error = (estimate(*student, x, noisy, from, text()) - target).square().mean() / 2;
        error.backward();
        loss += error.item<double>();
      }
      EXPECT_NEAR(run->metrics("few").at(static_cast<size_t>(step)).at("loss").get<double>(), loss,
                  1e-10 * loss);
      const NamedTensors after = weights_after(*run, step + 1);
      expect_step(*student, before, after);
      set_weights(*student, after);
      set_weights(*average, weights_after(*run, step + 1, /*averages=*/true));
      before = after;
    }
  }
}

TEST(CausalStarts, LossFalls) {
  for (const std::string& method : {kOde + "pairs = 2\n", kConsistency}) {
    const auto run = of_one_sample(method + "steps = 30\n");
    distilled(*run);
    const auto lines = run->metrics("few");
    double first = 0, last = 0;
    for (size_t i = 0; i < 8; ++i) {
      first += lines.at(i).at("loss").get<double>();
      last += lines.at(22 + i).at("loss").get<double>();
    }
    EXPECT_LT(last, 0.9 * first) << method;
  }
}

// The second step of the first run reads its pairs; that of the second one makes them.
TEST(CausalStarts, ResumeToTheSameBytes) {
  for (const std::string& method : {kOde + "pairs = 2\n", kConsistency}) {
    const std::string lines = method + "steps = 2\n";
    const auto whole = distillation(lines), resumed = distillation(lines);
    distilled(*whole);
    const fs::path first = "few/checkpoints/step-000001";
    fs::create_directories((resumed->folder() / first).parent_path());
    fs::copy(whole->folder() / first, resumed->folder() / first, fs::copy_options::recursive);
    distilled(*resumed);
    for (const bool averages : {false, true}) {
      const auto want = weights_after(*whole, 2, averages), got = weights_after(*resumed, 2, averages);
      for (const auto& [name, t] : want) EXPECT_TRUE(at::equal(got.at(name), t)) << method << name;
    }
  }
}

// Without guidance teacher and critic, which begin with the train job's weights, agree: the student stays what it was.
TEST(CausalStarts, ADmdJobBeginsWithTheirStudentAndTheTrainJobsTeacher) {
  for (const std::string lora : {"", "lora = 'rank=2 alpha=3 targets=linear_qkv'\n"}) {
    const auto run = of_one_sample(kConsistency + "steps = 2\n" + lora +
                                   "[[job]]\nname = 'next'\nkind = 'distill'\ninput = ['latents', 'few']\n"
                                   "batch = 2\nsteps = 1\nevery = 1\nguidance = 1.0\nweight_decay = 0.0\n"
                                   "ema = 0.0\ntensorboard = false\nprecision = 'fp64'\n" +
                                   lora);
    distilled(*run);
    JobContext context = run->context("next");
    test::run_job(context);
    EXPECT_EQ(run->metrics("next").at(0).at("score_distance").get<double>(), 0);
    EXPECT_GT(run->metrics("next").at(0).at("critic_gradient_norm").get<double>(), 0);
    const auto start = read_tensors(run->of("few") / "weights.safetensors"),
               end = read_tensors(run->of("next") / "weights.safetensors"),
               base = read_tensors(run->of("dit") / "weights.safetensors");
    size_t changed = 0;
    for (const auto& [name, t] : start) {
      EXPECT_TRUE(at::equal(end.at(name), t)) << name;
      changed += at::equal(t, base.at(name).to(t.scalar_type())) ? 0 : 1;
    }
    EXPECT_FALSE(fs::exists(run->of("next") / "weights.ema-0.99.safetensors")) << "ema = 0.0";
    EXPECT_GT(changed, 0U) << "the consistency job must have changed its student";
    EXPECT_EQ(run->spec("next").component("sampler")->options.values(),
              run->spec("few").component("sampler")->options.values());
  }
}

TEST(CausalStarts, RefuseWhatOnlyDistributionMatchingHas) {
  const auto said = [](const std::string& lines) {
    const auto run = distillation("steps = 1\nevery = 1\n" + lines);
    return test::refusal([&] { distilled(*run); });
  };
  EXPECT_THAT(said("method = 'ode'\npairs = 1\n"),
              testing::HasSubstr("pairs = 1 must be at least batch = 2"));
  EXPECT_THAT(said("method = 'consistency'\ncritic_weights = 'FOLDER/dit/weights.safetensors'\n"),
              testing::HasSubstr("only method = \"dmd\" has a critic"));
}

}  // namespace
}  // namespace kinora::core::causal_starts_test
