// The trainer with more than one network, as a distillation has: a student that steps every second time, a
// critic that steps every time but the first, and a teacher that never does.
#include "plugins/jobs/training/trainer.hpp"

#include <limits>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/train-tokenizer/train_tokenizer_options.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using test::ScratchRun;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 6, kStudentEvery = 2, kCriticFrom = 1;
constexpr size_t kStudent = 0, kCritic = 1;

const std::string kOptions =
    "steps = 6\nbatch = 4\naccumulate = 2\nwarmup = 0\nschedule = 'constant'\nlearning_rate = "
    "0.01\nclip_norm = 0.5\n"
    "ema = 0.9\ncheckpoint_every = 1\nkeep = 100\ntensorboard = false\nasync_checkpoints = false\n";

bool is_due(size_t role, int64_t step) {
  return role == kStudent ? (step + 1) % kStudentEvery == 0 : step >= kCriticFrom;
}

// The task may do what must change nothing, or go wrong in the critic's loss at some steps (counted from 0).
struct Task {
  bool leaks = false;  // the graph of a loss goes into the network that it does not change
  std::set<int64_t> nan_gradients{}, infinite_losses{};
};

class Distillation final : public TrainingTask {
 public:
  explicit Distillation(JobContext& context, Task how = {})
      : how_(std::move(how)),
        options_(context.options<TrainTokenizerOptions>()),
        parallel_(context),
        student_(network(1)),
        teacher_(network(2)),
        critic_(network(3)),
        trained_student_(context, *student_, parallel_, of_student()),
        trained_critic_(context, *critic_, parallel_,
                        {.name = "critic",
                         .optimizer = "critic_optimizer",
                         .learning_rate = [](int64_t) { return 0.02; },
                         .decay = usual_decay(0.1),
                         .clip_norm = 0.5,
                         .ema = {0.5},
                         .first_step = kCriticFrom}) {
    Trainer(context, *this, {&trained_student_, &trained_critic_}, parallel_, options_).run();
  }

  MicroLoss micro_loss(size_t role, int64_t first, int64_t count) override {
    const int64_t step = first / options_.batch;
    EXPECT_TRUE(is_due(role, step)) << "role " << role << " in step " << step;
    const double share = static_cast<double>(count) / static_cast<double>(options_.batch);
    const at::Tensor video = sample_noise(at::empty({count, 3, 1, 16, 16}), kSeed, first, "video"),
                     made = of(*student_, video), judged = of(*critic_, video);
    if (role == kCritic) {
      at::Tensor loss = (judged - cut(made)).square().mean() * share;
      if (how_.nan_gradients.contains(step)) loss = loss + (0 * judged).sum().abs().sqrt();
      if (how_.infinite_losses.contains(step)) loss = loss + std::numeric_limits<double>::infinity();
      return {loss, {}, {}};
    }
    made_ += made.detach().mean() * share;
    at::Tensor taught;
    {
      const at::NoGradGuard off;
      taught = of(*teacher_, video);
    }
    return {(made - (taught + cut(judged)) / 2 - mean_).square().mean() * share, {}, {}};
  }
  bool after_step(int64_t, json&) override {
    mean_ = 0.5 * mean_ + std::exchange(made_, at::zeros({1}));
    return false;
  }
  NamedTensors state() const override { return {{"mean", mean_}}; }
  void restore(NamedTensors state) override { mean_ = state.at("mean"); }

 private:
  Trained::How of_student() const {
    Trained::How how = how_of(options_);
    how.every = kStudentEvery;
    return how;
  }
  at::Tensor cut(const at::Tensor& x) const { return how_.leaks ? x : x.detach(); }
  static std::unique_ptr<Model> network(uint64_t seed) {
    const Component model = or_throw(test::runtime().registry().open("model/patch-discriminator"));
    return std::make_unique<Model>(model,
                                   or_throw(Options::make(*model.spec, json{{"channels", 4}, {"layers", 1}})),
                                   ChainOptions{.seed = seed});
  }
  static at::Tensor of(Model& network, const at::Tensor& video) {
    return network.forward({{"video", video}}).at(0);
  }

  const Task how_;
  TrainTokenizerOptions options_;
  Parallelism parallel_;
  std::unique_ptr<Model> student_, teacher_, critic_;
  Trained trained_student_, trained_critic_;
  at::Tensor made_ = at::zeros({1}), mean_ = at::zeros({1});  // of the step, and over the latest steps
};

// The job of a distillation, with an optimizer of the critic's own.
struct TwoOptimizers {
  explicit TwoOptimizers(const std::string& more = "", double beta1 = 0)
      : run(std::map<std::string, std::string>{{"tokenizer", kOptions + more}}), spec(run.spec("tokenizer")) {
    const Component adamw = or_throw(test::runtime().registry().open("optimizer/adamw"));
    spec.components.push_back({.slot = "critic_optimizer",
                               .id = "optimizer/adamw",
                               .options = or_throw(Options::make(*adamw.spec, json{{"beta1", beta1}}))});
    context.emplace(test::runtime(), run.run(), spec);
  }
  fs::path checkpoint(int64_t step) const {
    return run.of("tokenizer") / fmt::format("checkpoints/step-{:06}", step);
  }
  Checkpoint after(int64_t step) const { return load_checkpoint(checkpoint(step)); }
  // The training will continue from this step of another one.
  void continues(const TwoOptimizers& from, int64_t step) const {
    fs::create_directories(checkpoint(step).parent_path());
    fs::copy(from.checkpoint(step), checkpoint(step), fs::copy_options::recursive);
  }

  ScratchRun run;
  JobSpec spec;
  std::optional<JobContext> context;
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_same_bytes(const TwoOptimizers& a, const TwoOptimizers& b, const std::string& what) {
  for (const char* file : {"weights", "optimizer", "ema-0.9", "more"}) {
    const std::string name = std::string(file) + ".safetensors",
                      first = bytes_of(a.checkpoint(kSteps) / name);
    EXPECT_FALSE(first.empty()) << name;
    EXPECT_TRUE(first == bytes_of(b.checkpoint(kSteps) / name)) << name << " " << what;
  }
}

// Whether the critic's weights are the same in both checkpoints.
bool critic_stays(const Checkpoint& before, const Checkpoint& after) {
  size_t same = 0, all = 0;
  for (const auto& [name, t] : before.more)
    if (name.starts_with("critic.weight.")) ++all, same += at::equal(t, after.more.at(name));
  EXPECT_GT(all, 0U);
  EXPECT_TRUE(same == 0 || same == all);
  return same == all;
}

TEST(Trainer, StepsEachOfItsNetworksInItsTurn) {
  TwoOptimizers job;
  const Distillation trained(*job.context);
  const auto lines = job.run.metrics("tokenizer");
  ASSERT_EQ(lines.size(), kSteps);
  for (int64_t step = 0; step < kSteps; ++step)
    for (const auto& [name, role] : {std::pair("gradient_norm", kStudent),
                                     {"loss", kStudent},
                                     {"critic_gradient_norm", kCritic},
                                     {"critic", kCritic}})
      EXPECT_EQ(lines[static_cast<size_t>(step)].contains(name), is_due(role, step)) << name << step;
  for (int64_t step = 1; step < kSteps; ++step) {
    const auto before = job.after(step), after = job.after(step + 1);
    for (const auto& [name, t] : before.weights)
      EXPECT_EQ(at::equal(t, after.weights.at(name)), !is_due(kStudent, step)) << step << name;
    EXPECT_FALSE(critic_stays(before, after)) << step;
  }
  const auto last = job.after(kSteps);
  EXPECT_EQ(last.state.optimizer_steps, kSteps / kStudentEvery);
  EXPECT_EQ(last.more.at("critic.steps").item<int64_t>(), kSteps - kCriticFrom);
  EXPECT_EQ(last.more.at("critic.ema_updates").item<int64_t>(), kSteps - kCriticFrom);
}

TEST(Trainer, ResumesAllOfItsNetworksToTheSameBytes) {
  TwoOptimizers whole;
  const Distillation once(*whole.context);
  for (const int64_t left : {1, 3, 4}) {
    TwoOptimizers resumed;
    resumed.continues(whole, left);
    const Distillation rest(*resumed.context);
    expect_same_bytes(whole, resumed, fmt::format("after step {}", left));
  }
}

// The first moment after the first step is (1 - beta1) times the gradient.
TEST(Trainer, StepsEachNetworkByAnOptimizerOfItsOwn) {
  TwoOptimizers all("", 0), half("", 0.5);
  const Distillation one(*all.context), other(*half.context);
  const auto a = all.after(kCriticFrom + 1), b = half.after(kCriticFrom + 1);
  EXPECT_GT(a.more.at("critic.first.layers.0.conv.weight").abs().max().item<double>(), 0);
  for (const auto& [name, t] : a.more)
    if (name.starts_with("critic.first.")) {
      EXPECT_TRUE(at::allclose(0.5 * t, b.more.at(name))) << name;
    }
  for (const auto& [name, t] : a.optimizer) EXPECT_TRUE(at::equal(t, b.optimizer.at(name))) << name;
}

TEST(Trainer, ALossChangesItsOwnNetworkAlone) {
  TwoOptimizers cut, leaking;
  const Distillation one(*cut.context), other(*leaking.context, {.leaks = true});
  expect_same_bytes(cut, leaking, "if a loss passes through another network");
}

TEST(Trainer, SkipsAStepOfOneNetworkThatIsNotFinite) {
  TwoOptimizers job("max_skipped = 3\n");
  const Task bad{.nan_gradients = {3}, .infinite_losses = {4}};
  const Distillation trained(*job.context, bad);
  const auto lines = job.run.metrics("tokenizer");
  for (int64_t step = 1; step < kSteps; ++step) {
    const bool is_bad = step == 3 || step == 4;
    EXPECT_EQ(lines.at(static_cast<size_t>(step)).value("skipped", false), is_bad) << step;
    EXPECT_EQ(critic_stays(job.after(step), job.after(step + 1)), is_bad) << step;
  }
  EXPECT_FALSE(at::equal(job.after(3).weights.begin()->second, job.after(4).weights.begin()->second))
      << "the student steps";
  const auto last = job.after(kSteps);
  EXPECT_EQ(last.state.skipped, 2);
  EXPECT_EQ(last.state.optimizer_steps, kSteps / kStudentEvery);
  EXPECT_EQ(last.more.at("critic.steps").item<int64_t>(), kSteps - kCriticFrom - 2);
  // As many in a row as are too many: the first before the training was resumed,.
  TwoOptimizers resumed("max_skipped = 2\n");
  resumed.continues(job, 4);
  EXPECT_THAT(test::refusal([&] { Distillation(*resumed.context, bad); }),
              HasSubstr("step 5: the critic's gradient or the loss was not finite in 2 steps in a row"));
}

}  // namespace
}  // namespace kinora::core
