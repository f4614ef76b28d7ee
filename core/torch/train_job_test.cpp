// What a training job computes, number by number: kind = "train" on latents made by hand against a loop in
// float64 that knows nothing of Trainer, AdamW, Ema or loss/edm.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/checkpoint.hpp"
#include "core/torch/clips.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/latents.hpp"
#include "core/torch/noise.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using test::ScratchRun;
using testing::HasSubstr;

constexpr uint64_t kSeed = 3;  // of ScratchRun
constexpr double kSigmaData = 0.5;

struct Sample {
  at::Tensor latent, text;  // as cached
};

// Multiples of 1/64, and scales that are powers of two: normalising them is exact in float32.
std::vector<Sample> samples() {
  at::manual_seed(7);
  std::vector<Sample> out;
  for (const int64_t tokens : {1, 3, 2})
    out.push_back({(at::randn({2, 2, 2, 4}) * 64).round() / 64, at::randn({tokens, 12})});
  return out;
}

void write_latents(const fs::path& folder, const std::vector<Sample>& samples) {
  fs::create_directories(folder);
  LatentCacheWriter cache(folder / "latents.h5", "{}");
  for (size_t i = 0; i < samples.size(); ++i)
    cache.add(std::to_string(i), {{"latent", samples[i].latent}, {"text", samples[i].text}});
  cache.commit();
  LatentFacts facts;
  facts.scale = {{0.25, -0.5}, {2, 0.5}, kSigmaData};
  facts.shape = {2, 2, 2, 4};
  facts.text_size = 12;
  std::ofstream(folder / "latents.json") << facts.to_json().dump();
}

// Of the reference alone.
struct Knobs {
  int64_t steps = 4, batch = 4, warmup = 2;
  double learning_rate = 0.02, decay = 0.1, beta1 = 0.8, beta2 = 0.9, eps = 1e-3, clip = 0.05, ema = 0.6,
         dropout = 0.4;
  std::string toml() const {
    return fmt::format(
        "steps = {}\nbatch = {}\nwarmup = {}\nlearning_rate = {}\nweight_decay = {}\nbeta1 = {}\nbeta2 = "
        "{}\neps = {}\n"
        "clip_norm = {}\nema = {}\ntext_dropout = {}\n",
        steps, batch, warmup, learning_rate, decay, beta1, beta2, eps, clip, ema, dropout);
  }
};

struct Step {
  double loss, norm, rate;
  bool skipped;
};

// Karras et al. 2022: the weighted squared error of D(x; sigma) at a log-normal sigma, of global sample n.
at::Tensor loss_of(Network& network, const Sample& s, int64_t n, double dropout) {
  const auto by_channel = [](double a, double b) {
    return at::tensor({a, b}, at::kDouble).view({2, 1, 1, 1});
  };
  const at::Tensor x0 =
      ((s.latent.to(at::kDouble) - by_channel(0.25, -0.5)) / by_channel(2, 0.5) * kSigmaData).unsqueeze(0);
  const double sigma = at::special_ndtri(sample_uniform({1}, kSeed, n, "train.sigma")).exp().item<double>();
  const double s2 = sigma * sigma, d2 = kSigmaData * kSigmaData;
  const at::Tensor x = x0 + sigma * sample_noise(x0, kSeed, n, "train.noise");
  const bool drop = sample_uniform({1}, kSeed, n, "train.text-dropout").item<double>() < dropout;
  const at::Tensor text = s.text.to(at::kDouble).unsqueeze(0) * (drop ? 0.0 : 1.0);
  const at::Tensor f = network
                           .forward({{"latent", x / std::sqrt(s2 + d2)},
                                     {"timestep", at::full({1}, std::log(sigma) / 4, at::kDouble)},
                                     {"text", text}})
                           .at(0);
  const at::Tensor d = d2 / (s2 + d2) * x + sigma * kSigmaData / std::sqrt(s2 + d2) * f;
  return (d - x0).square().mean() * ((s2 + d2) / (s2 * d2));
}

double rate_of(const Knobs& k, int64_t step) {
  if (step < k.warmup) return k.learning_rate * static_cast<double>(step + 1) / static_cast<double>(k.warmup);
  return k.learning_rate * 0.5 *
         (1 +
          std::cos(M_PI * static_cast<double>(step - k.warmup) / static_cast<double>(k.steps - k.warmup)));
}

struct Reference {
  std::vector<Step> steps;
  NamedTensors weights, averages;
};

Reference reference(Network& network, const std::vector<Sample>& samples, const Knobs& k) {
  auto& leaves = network.chain().leaves();
  std::vector<at::Tensor> m, v, average;
  for (const auto& l : leaves) {
    m.push_back(at::zeros_like(l.tensor.detach()));
    v.push_back(at::zeros_like(l.tensor.detach()));
    average.push_back(l.tensor.detach().clone());
  }
  Reference out;
  int64_t t = 0;
  for (int64_t step = 0; step < k.steps; ++step) {
    double loss = 0, squares = 0;
    for (int64_t n = step * k.batch; n < (step + 1) * k.batch; ++n) {
      const auto which = static_cast<size_t>(shuffled(n, static_cast<int64_t>(samples.size()), kSeed));
      const at::Tensor one = loss_of(network, samples[which], n, k.dropout) / static_cast<double>(k.batch);
      one.backward();
      loss += one.item<double>();
    }
    for (const auto& l : leaves) squares += l.tensor.grad().square().sum().item<double>();
    const double norm = std::sqrt(squares), rate = rate_of(k, step),
                 factor = k.clip > 0 ? std::min(1.0, k.clip / (norm + 1e-6)) : 1;
    const bool finite = std::isfinite(loss) && std::isfinite(norm);
    out.steps.push_back({loss, norm, rate, !finite});
    if (finite) ++t;
    for (size_t i = 0; i < leaves.size(); ++i) {
      at::Tensor w = leaves[i].tensor.detach();
      const at::Tensor g = leaves[i].tensor.grad() * factor;
      leaves[i].tensor.mutable_grad().reset();
      if (!finite) continue;
      if (w.dim() > 1) w.mul_(1 - rate * k.decay);
      m[i] = k.beta1 * m[i] + (1 - k.beta1) * g;
      v[i] = k.beta2 * v[i] + (1 - k.beta2) * g * g;
      const double td = static_cast<double>(t);
      w.sub_(rate * (m[i] / (1 - std::pow(k.beta1, td))) /
             ((v[i] / (1 - std::pow(k.beta2, td))).sqrt() + k.eps));
      const double keep = std::min(k.ema, td / (9 + td));  // (1 + n) / (10 + n) after n = t - 1 updates
      average[i] = keep * average[i] + (1 - keep) * w;
    }
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    out.weights[leaves[i].name] = leaves[i].tensor.detach();
    out.averages[leaves[i].name] = average[i];
  }
  return out;
}

double worst(const NamedTensors& got, const NamedTensors& want) {
  EXPECT_EQ(got.size(), want.size());
  double out = 0;
  for (const auto& [name, t] : want)
    out = std::max(out, ((got.at(name).to(at::kDouble) - t).abs().max() / t.abs().max()).item<double>());
  return out;
}

// A run whose dit starts from start.safetensors, random numbers.
std::unique_ptr<ScratchRun> training(const Knobs& k, const std::string& more = "",
                                     const std::vector<Sample>& data = samples()) {
  auto run = std::make_unique<ScratchRun>(std::map<std::string, std::string>{
      {"dit", k.toml() + "weights = 'FOLDER/start.safetensors'\n" + more}});
  EXPECT_EQ(run->problems(), "");
  write_latents(run->of("latents"), data);
  ScratchRun::save(*run->network("dit", "model"), run->folder() / "start.safetensors");
  return run;
}

json trained(const ScratchRun& run) {
  JobContext context = run.context("dit");
  run_train(context);
  return context.summary;
}

std::string failure(const ScratchRun& run) {
  try {
    trained(run);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void expect_steps(const ScratchRun& run, const Reference& want, double bound) {
  const auto lines = run.metrics("dit");
  ASSERT_EQ(lines.size(), want.steps.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Step& s = want.steps[i];
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].value("skipped", false), s.skipped) << i;
    EXPECT_NEAR(lines[i].at("learning_rate").get<double>(), s.rate, 1e-15);
    if (s.skipped) continue;
    EXPECT_NEAR(lines[i].at("loss").get<double>() / s.loss, 1, bound) << i;
    EXPECT_NEAR(lines[i].at("gradient_norm").get<double>() / s.norm, 1, bound) << i;
  }
}

struct Case {
  std::string name;
  std::string lines;
  double bound;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class TrainJobOf : public testing::TestWithParam<Case> {};

// Losses, norms and rates of every step, the weights after them and their averages: the learning rate's sign,
// the text, the scale of latents, clipping, averaging, decay and the split into microbatches all show here.
TEST_P(TrainJobOf, EqualsALoopInDouble) {
  const Knobs k;
  const auto run = training(k, GetParam().lines);
  const json summary = trained(*run);
  const auto network = run->network("dit", "model", at::kDouble);
  const Reference want = reference(*network, samples(), k);
  EXPECT_GT(want.steps[0].norm, 2 * k.clip) << "nothing would be clipped";
  expect_steps(*run, want, GetParam().bound);
  EXPECT_LT(worst(read_tensors(run->of("dit") / "weights.safetensors"), want.averages), GetParam().bound);
  const Checkpoint last = load_checkpoint(*latest_checkpoint(run->of("dit") / "checkpoints"));
  EXPECT_LT(worst(last.weights, want.weights), GetParam().bound);
  EXPECT_LT(worst(last.ema, want.averages), GetParam().bound);
  EXPECT_GT(worst(want.averages, want.weights), 1e-3) << "averages that equal the weights would show nothing";
  EXPECT_NEAR(summary.at("loss").get<double>() / want.steps.back().loss, 1, GetParam().bound);
}
INSTANTIATE_TEST_SUITE_P(Cases, TrainJobOf,
                         testing::Values(Case{"float64", "precision = 'fp64'\n", 1e-10},
                                         Case{"float64_in_microbatches",
                                              "precision = 'fp64'\naccumulate = 2\n", 1e-10},
                                         Case{"float32", "", 1e-3}),
                         [](const auto& info) { return info.param.name; });

TEST(TrainJob, WithoutClippingAndAveragesEqualsTheLoopToo) {
  Knobs k;
  k.clip = 0, k.ema = 0, k.dropout = 0;
  const auto run = training(k, "precision = 'fp64'\n");
  trained(*run);
  const Reference want = reference(*run->network("dit", "model", at::kDouble), samples(), k);
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
  const Reference want = reference(*run->network("dit", "model", at::kDouble), data, k);
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
    EXPECT_THAT(failure(*run), testing::AllOf(HasSubstr("job 'dit': step " + std::to_string(steps) + ":"),
                                              HasSubstr("lower learning_rate (0.02)")));
    EXPECT_EQ(run->metrics("dit").size(), static_cast<size_t>(steps));
  }
}

TEST(TrainJob, RefusesBetasOfOne) {
  for (const char* line : {"beta1 = 1.0", "beta2 = 1.0"})
    EXPECT_THAT(ScratchRun(std::map<std::string, std::string>{{"dit", line}}).problems(),
                HasSubstr("of at least 0 below 1, found 1.0"))
        << line;
}

// As a process leaves it that was killed after a checkpoint: lines of later steps are there too.
TEST(TrainJob, ResumedEqualsUninterrupted) {
  Knobs k;
  k.steps = 6;
  const auto whole = training(k, "checkpoint_every = 2\nkeep = 10\n");
  const json summary = trained(*whole);
  for (const auto& [left, lines] : {std::pair<std::string, size_t>{"step-000002", 5}, {"step-000006", 6}}) {
    const auto resumed = training(k, "checkpoint_every = 2\nkeep = 10\n");
    fs::create_directories(resumed->of("dit") / "checkpoints");
    fs::copy(whole->of("dit") / "checkpoints" / left, resumed->of("dit") / "checkpoints" / left,
             fs::copy_options::recursive);
    std::ofstream curve(resumed->of("dit") / "metrics.jsonl");
    for (size_t i = 0; i < lines; ++i) curve << whole->metrics("dit")[i].dump() << "\n";
    curve.close();
    EXPECT_EQ(trained(*resumed).at("loss"), summary.at("loss")) << left;
    const auto a = whole->metrics("dit"), b = resumed->metrics("dit");
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (const char* key : {"step", "loss", "gradient_norm"})
        EXPECT_EQ(a[i].at(key), b[i].at(key)) << i << key;
    const auto w = read_tensors(whole->of("dit") / "weights.safetensors"),
               r = read_tensors(resumed->of("dit") / "weights.safetensors");
    for (const auto& [name, t] : w) EXPECT_TRUE(at::equal(t, r.at(name))) << name;
  }
}

}  // namespace
}  // namespace kinora::core
