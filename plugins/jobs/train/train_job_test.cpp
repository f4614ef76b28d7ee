// A training job of a whole model: all its numbers, and its handling of steps that are not finite.
#include "core/run/description.hpp"
#include "core/run/identity.hpp"
#include "core/torch/tensors/device.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using namespace by_hand;

struct JobCase {
  std::string name;
  std::string lines;
  double bound;
  friend void PrintTo(const JobCase& c, std::ostream* out) { *out << c.name; }
};
class TrainJobOf : public testing::TestWithParam<JobCase> {};

// Losses, norms and rates of every step, the weights after them and their averages: this covers the learning
// rate's sign, the text, the scale of latents, clipping, averaging, decay and the split into microbatches.
TEST_P(TrainJobOf, EqualsALoopInDouble) {
  const Knobs k;
  const auto run = training(k, GetParam().lines);
  const json summary = trained(*run);
  const auto network = run->model("dit", "model", at::kDouble);
  const Reference want = reference(*network, samples(), k);
  EXPECT_GT(want.steps[0].norm, 2 * k.clip) << "nothing would be clipped";
  expect_steps(*run, want, GetParam().bound);
  EXPECT_LT(worst(read_tensors(run->of("dit") / "weights.safetensors"), want.averages), GetParam().bound);
  const Checkpoint last = load_checkpoint(*latest_checkpoint(run->of("dit") / "checkpoints"));
  EXPECT_LT(worst(last.weights, want.weights), GetParam().bound);
  EXPECT_LT(worst(last.ema.at("0.6"), want.averages), GetParam().bound);
  EXPECT_GT(worst(want.averages, want.weights), 1e-3)
      << "averages that equal the weights would prove nothing";
  EXPECT_NEAR(summary.at("loss").get<double>() / want.steps.back().loss, 1, GetParam().bound);
}
INSTANTIATE_TEST_SUITE_P(Cases, TrainJobOf,
                         testing::Values(JobCase{"float64", "precision = 'fp64'\n", 1e-10},
                                         JobCase{"float64_in_microbatches",
                                                 "precision = 'fp64'\naccumulate = 2\n", 1e-10},
                                         JobCase{"float32", "", 1e-3}),
                         [](const auto& info) { return info.param.name; });

// At the default eps a gradient that is only rounding, 1e-17 here, moves a weight by 1e-17 / 1e-8 of the rate.
TEST(TrainJob, AtTheDefaultEpsEqualsTheLoopToo) {
  Knobs k;
  k.eps = 1e-8;
  const auto run = training(k, "precision = 'fp64'\n");
  trained(*run);
  const Reference want = reference(*run->model("dit", "model", at::kDouble), samples(), k);
  expect_steps(*run, want, 1e-8);
  EXPECT_LT(worst(read_tensors(run->of("dit") / "weights.safetensors"), want.averages), 1e-8);
}

TEST(TrainJob, TakesItsRatesFromTheOptionsOfItsSchedule) {
  Knobs k;
  k.steps = 6;
  const auto run =
      training(k, "schedule = 'wsd'\nfinal_rate = 0.005\ndecay_share = 0.5\ndecay_shape = 'linear'\n");
  trained(*run);
  std::vector<double> rates;
  for (const json& line : run->metrics("dit")) rates.push_back(line.at("learning_rate"));
  EXPECT_THAT(rates, testing::Pointwise(testing::DoubleNear(1e-12), {0.01, 0.02, 0.02, 0.02, 0.015, 0.01}));
}

TEST(TrainJob, KeepsAveragesOfSeveralDecaysAndHandsOnTheFirst) {
  Knobs k;
  const auto run = training(k, "precision = 'fp64'\n"),
             two = training(k, "precision = 'fp64'\n", samples(), "[0.6, 0.3]");
  trained(*run);
  trained(*two);
  const auto read = [&](const char* name) { return read_tensors(two->of("dit") / name); };
  k.ema = 0.3;
  const Reference other = reference(*run->model("dit", "model", at::kDouble), samples(), k);
  EXPECT_LT(worst(read("weights.ema-0.3.safetensors"), other.averages), 1e-10);
  const auto first = read_tensors(run->of("dit") / "weights.safetensors");
  EXPECT_EQ(worst(read("weights.safetensors"), first), 0);
  EXPECT_EQ(worst(read("weights.ema-0.6.safetensors"), first), 0);
  const Checkpoint last = load_checkpoint(*latest_checkpoint(two->of("dit") / "checkpoints"));
  EXPECT_LT(worst(last.ema.at("0.3"), other.averages), 1e-10);
  EXPECT_LT(worst(last.weights, other.weights), 1e-10);
}

// Only operands are bfloat16: weights, gradients and sums stay float32, and the losses stay close to
// float32's.
TEST(TrainJob, InBf16StaysCloseToFloat32) {
  Knobs k;
  k.steps = 20, k.clip = 1, k.learning_rate = 1e-3;
  const auto wide = training(k), narrow = training(k, "precision = 'bf16'\n");
  trained(*wide);
  trained(*narrow);
  const auto a = wide->metrics("dit"), b = narrow->metrics("dit");
  double loss = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto apart = [&](const char* name) {
      return std::abs(b[i].at(name).get<double>() / a[i].at(name).get<double>() - 1);
    };
    loss = test::worse(loss, apart("loss")), norm = test::worse(norm, apart("gradient_norm"));
  }
  // An operand is off by at most 2^-9 (half a unit of 8 bits); a few layers add up to no more than a few
  // times that.
  EXPECT_LT(loss, 5 * std::pow(2, -9));
  EXPECT_LT(norm, 20 * std::pow(2, -9));
  EXPECT_GT(loss, 1e-7) << "it was float32";
  RecordProperty("worst_loss", std::to_string(loss));
  RecordProperty("worst_norm", std::to_string(norm));
  const Checkpoint last = load_checkpoint(*latest_checkpoint(narrow->of("dit") / "checkpoints"));
  for (const auto& [name, t] : last.weights) EXPECT_EQ(t.scalar_type(), at::kFloat) << name;
  for (const auto& [name, t] : last.optimizer) EXPECT_EQ(t.scalar_type(), at::kFloat) << name;
}

TEST(TrainJob, WithoutClippingAndAveragesEqualsTheLoopToo) {
  Knobs k;
  k.clip = 0, k.ema = 0, k.dropout = 0;
  const auto run = training(k, "precision = 'fp64'\n");
  trained(*run);
  const Reference want = reference(*run->model("dit", "model", at::kDouble), samples(), k);
  expect_steps(*run, want, 1e-10);
  EXPECT_LT(worst(read_tensors(run->of("dit") / "weights.safetensors"), want.weights), 1e-10);
}

TEST(TrainJob, LearnsWhatItIsShown) {
  Knobs k;
  k.steps = 400, k.learning_rate = 1e-2, k.eps = 1e-8, k.clip = 1, k.decay = 0, k.dropout = 0;
  const auto run = training(k);
  trained(*run);
  const auto lines = run->metrics("dit");
  double first = 0, last = 0;
  for (size_t i = 0; i < 20; ++i) {
    first += lines[i].at("loss").get<double>();
    last += lines[lines.size() - 1 - i].at("loss").get<double>();
  }
  EXPECT_LT(last, 0.5 * first);
}

TEST(TrainJob, AStepThatIsNotFiniteChangesNothing) {
  Knobs k;
  k.steps = 6, k.batch = 1;
  auto data = samples();
  data[1].latent[0][0][0][0] = NAN;
  const auto run = training(k, "precision = 'fp64'\n", data);
  const json summary = trained(*run);
  const Reference want = reference(*run->model("dit", "model", at::kDouble), data, k);
  expect_steps(*run, want, 1e-10);
  EXPECT_LT(worst(read_tensors(run->of("dit") / "weights.safetensors"), want.averages), 1e-10);
  EXPECT_EQ(summary.at("skipped"), 2) << "two epochs, one sample in each";
  EXPECT_TRUE(summary.at("loss").is_number());
}

TEST(TrainJob, FailsAfterTooManyStepsInARowThatAreNotFinite) {
  Knobs k;
  k.steps = 30;
  auto data = samples();
  for (auto& s : data) s.latent.fill_(NAN);
  for (const auto& [lines, steps] : {std::pair<const char*, int>{"", 10}, {"max_skipped = 3\n", 3}}) {
    const auto run = training(k, lines, data);
    EXPECT_THAT(failure(*run), testing::AllOf(HasSubstr("step " + std::to_string(steps) + ":"),
                                              HasSubstr("lower learning_rate (0.02)")));
    EXPECT_EQ(run->metrics("dit").size(), static_cast<size_t>(steps));
  }
}

// A resume counts on: otherwise a training that is restarted often enough never ends.
TEST(TrainJob, CountsStepsInARowThatAreNotFiniteOverAResume) {
  Knobs k;
  k.steps = 30;
  auto data = samples();
  for (auto& s : data) s.latent.fill_(NAN);
  const auto run = training(k, "max_skipped = 3\ncheckpoint_every = 1\nasync_checkpoints = false\n", data);
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(failure(*run),
                HasSubstr("step 3: the gradient or the loss was not finite in 3 steps in a row"));
    EXPECT_EQ(latest_checkpoint(run->of("dit") / "checkpoints")->filename(), "step-000002");
  }
}

TEST(TrainJob, RefusesBetasOfOne) {
  for (const char* line :
       {"optimizer = { use = 'adamw', beta1 = 1.0 }", "optimizer = { use = 'adamw', beta2 = 1.0 }"})
    EXPECT_THAT(ScratchRun(std::map<std::string, std::string>{{"dit", line}}).problems(),
                HasSubstr("of at least 0 below 1, found 1.0"))
        << line;
}

TEST(TrainJob, OnTheCpuByNameIsTheSameAsByItself) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "auto is this machine's GPU";
  const auto by_name = training(Knobs(), "device = 'cpu'\n"), by_itself = training(Knobs());
  trained(*by_name);
  trained(*by_itself);
  EXPECT_EQ(worst(read_tensors(by_name->of("dit") / "weights.safetensors"),
                  read_tensors(by_itself->of("dit") / "weights.safetensors")),
            0);
  EXPECT_THAT(failure(*training(Knobs(), "device = 'cuda'\n")), HasSubstr("device 'cuda': " + why_no_gpu()));
  EXPECT_THAT(failure(*training(Knobs(), "device = 'gpu'\n")), HasSubstr("give auto, cpu, cuda or cuda:N"));
}

TEST(TrainJob, IsTheSameJobOnAnyDevice) {
  const ScratchRun run;
  RunFile file = run.run();
  JobSpec* dit = nullptr;
  for (auto& job : file.jobs)
    if (job.name == "dit") dit = &job;
  ASSERT_TRUE(dit);
  const auto digest = [&] { return JobIdentities(file).of(*dit).digest; };
  const std::string before = digest();
  dit->options["device"] = "cuda:1";
  dit->options["prefetch"] = false;
  EXPECT_EQ(digest(), before);
  dit->options["lora"] = "rank=2 targets=linear_qkv";
  EXPECT_NE(digest(), before);
}

TEST(TrainJob, IsTheSameJobWithAnotherVersionOfAPluginThatStatesTheSameResults) {
  const ScratchRun run;
  RunFile file = run.run();
  JobSpec& dit = *std::ranges::find(file.jobs, "dit", &JobSpec::name);
  const auto identity = [&] { return JobIdentities(file).of(dit); };
  const JobIdentity before = identity();
  ASSERT_FALSE(dit.components.empty());
  dit.components.front().version = "9.9.9";
  EXPECT_EQ(identity().digest, before.digest);
  EXPECT_EQ(identity().base, before.base);
  const nlohmann::json spec = spec_json(dit);
  dit.components.front().results = 2;
  EXPECT_NE(identity().digest, before.digest);
  EXPECT_NE(identity().base, before.base);
  EXPECT_THAT(difference(spec, spec_json(dit)), HasSubstr("(results 2)"));
}

}  // namespace
}  // namespace kinora::core
