// What a training job computes, number by number: kind = "train" on latents made by hand against a loop in
// float64 that knows nothing of Trainer, AdamW, Ema or loss/edm.
#include <algorithm>
#include <cmath>
#include <set>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/cancel.hpp"
#include "core/run/digest.hpp"
#include "core/torch/checkpoint.hpp"
#include "core/torch/clips.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/latents.hpp"
#include "core/torch/noise.hpp"
#include "core/torch/validation.hpp"
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
        "clip_norm = {}\ntext_dropout = {}\n",
        steps, batch, warmup, learning_rate, decay, beta1, beta2, eps, clip, dropout);
  }
};

struct Step {
  double loss, norm, rate;
  bool skipped;
  std::vector<std::pair<double, double>> by_sample;  // noise level, loss
};

// Karras et al. 2022: the weighted squared error of D(x; sigma) at a log-normal sigma, of global sample n.
double sigma_of(int64_t n) {
  return at::special_ndtri(sample_uniform({1}, kSeed, n, "train.sigma")).exp().item<double>();
}
at::Tensor loss_at(Network& network, const Sample& s, double sigma, const at::Tensor& noise, bool drop);
at::Tensor normalised(const Sample& s) {
  const auto by_channel = [](double a, double b) {
    return at::tensor({a, b}, at::kDouble).view({2, 1, 1, 1});
  };
  return ((s.latent.to(at::kDouble) - by_channel(0.25, -0.5)) / by_channel(2, 0.5) * kSigmaData).unsqueeze(0);
}
at::Tensor loss_of(Network& network, const Sample& s, int64_t n, double dropout) {
  const bool drop = sample_uniform({1}, kSeed, n, "train.text-dropout").item<double>() < dropout;
  return loss_at(network, s, sigma_of(n), sample_noise(normalised(s), kSeed, n, "train.noise"), drop);
}
at::Tensor loss_at(Network& network, const Sample& s, double sigma, const at::Tensor& noise, bool drop) {
  const at::Tensor x0 = normalised(s);
  const double s2 = sigma * sigma, d2 = kSigmaData * kSigmaData;
  const at::Tensor x = x0 + sigma * noise;
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
    std::vector<std::pair<double, double>> by_sample;
    for (int64_t n = step * k.batch; n < (step + 1) * k.batch; ++n) {
      const auto which = static_cast<size_t>(shuffled(n, static_cast<int64_t>(samples.size()), kSeed));
      const at::Tensor one = loss_of(network, samples[which], n, k.dropout) / static_cast<double>(k.batch);
      one.backward();
      loss += one.item<double>();
      by_sample.emplace_back(sigma_of(n), one.item<double>() * static_cast<double>(k.batch));
    }
    for (const auto& l : leaves) squares += l.tensor.grad().square().sum().item<double>();
    const double norm = std::sqrt(squares), rate = rate_of(k, step),
                 factor = k.clip > 0 ? std::min(1.0, k.clip / (norm + 1e-6)) : 1;
    const bool finite = std::isfinite(loss) && std::isfinite(norm);
    out.steps.push_back({loss, norm, rate, !finite, by_sample});
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
                                     const std::vector<Sample>& data = samples(),
                                     const std::string& ema = "") {
  auto run = std::make_unique<ScratchRun>(std::map<std::string, std::string>{
      {"dit", k.toml() + "ema = " + (ema.empty() ? fmt::format("{}", k.ema) : ema) + "\n" +
                  "weights = 'FOLDER/start.safetensors'\n" + more}});
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

// Mean loss and number of samples of the steps up to `last`, in half decades of sigma from 0.01 to 100.
void expect_by_sigma(const json& got, const Reference& want, size_t last, double bound) {
  for (int b = 0; b < 8; ++b) {
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i <= last; ++i)
      for (const auto& [sigma, loss] : want.steps[i].by_sample) {
        const bool in =
            (b == 0 || sigma >= std::pow(10, b / 2.0 - 2)) && (b == 7 || sigma < std::pow(10, b / 2.0 - 1.5));
        if (want.steps[i].skipped || !in) continue;
        sum += loss, ++count;
      }
    EXPECT_EQ(got.at("count")[static_cast<size_t>(b)], count) << b;
    const json& mean = got.at("mean")[static_cast<size_t>(b)];
    if (count == 0)
      EXPECT_TRUE(mean.is_null());
    else
      EXPECT_NEAR(mean.get<double>() / (sum / static_cast<double>(count)), 1, bound) << b;
  }
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
    expect_by_sigma(lines[i].at("loss_by_sigma"), want, i, bound);
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
  EXPECT_LT(worst(last.ema.at("0.6"), want.averages), GetParam().bound);
  EXPECT_GT(worst(want.averages, want.weights), 1e-3) << "averages that equal the weights would show nothing";
  EXPECT_NEAR(summary.at("loss").get<double>() / want.steps.back().loss, 1, GetParam().bound);
}
INSTANTIATE_TEST_SUITE_P(Cases, TrainJobOf,
                         testing::Values(Case{"float64", "precision = 'fp64'\n", 1e-10},
                                         Case{"float64_in_microbatches",
                                              "precision = 'fp64'\naccumulate = 2\n", 1e-10},
                                         Case{"float32", "", 1e-3}),
                         [](const auto& info) { return info.param.name; });

TEST(TrainJob, KeepsAveragesOfSeveralDecaysAndHandsOnTheFirst) {
  Knobs k;
  const auto run = training(k, "precision = 'fp64'\n"),
             two = training(k, "precision = 'fp64'\n", samples(), "[0.6, 0.3]");
  trained(*run);
  trained(*two);
  const auto read = [&](const char* name) { return read_tensors(two->of("dit") / name); };
  k.ema = 0.3;
  const Reference other = reference(*run->network("dit", "model", at::kDouble), samples(), k);
  EXPECT_LT(worst(read("weights.ema-0.3.safetensors"), other.averages), 1e-10);
  const auto first = read_tensors(run->of("dit") / "weights.safetensors");
  EXPECT_EQ(worst(read("weights.safetensors"), first), 0);
  EXPECT_EQ(worst(read("weights.ema-0.6.safetensors"), first), 0);
  const Checkpoint last = load_checkpoint(*latest_checkpoint(two->of("dit") / "checkpoints"));
  EXPECT_LT(worst(last.ema.at("0.3"), other.averages), 1e-10);
  EXPECT_LT(worst(last.weights, other.weights), 1e-10);
}

// bfloat16 operands only: weights, gradients and sums stay float32, and the losses close to float32's.
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
    loss = std::max(loss, apart("loss")), norm = std::max(norm, apart("gradient_norm"));
  }
  // An operand is off by 2^-9 at most (half a unit of 8 bits); of a few layers not more than a few of that.
  EXPECT_LT(loss, 5 * std::pow(2, -9));
  EXPECT_LT(norm, 20 * std::pow(2, -9));
  EXPECT_GT(loss, 1e-7) << "it was float32";
  RecordProperty("worst_loss", std::to_string(loss));
  RecordProperty("worst_norm", std::to_string(norm));
  const Checkpoint last = load_checkpoint(*latest_checkpoint(narrow->of("dit") / "checkpoints"));
  for (const auto& [name, t] : last.weights) EXPECT_EQ(t.scalar_type(), at::kFloat) << name;
  for (const auto& [name, t] : last.optimizer) EXPECT_EQ(t.scalar_type(), at::kFloat) << name;
}

// The loss at two levels on the first samples, by the averages, with noise that its key alone decides.
TEST(TrainJob, ValidatesAtFixedLevelsWithNoiseOfItsOwn) {
  Knobs k;
  const auto run = training(k,
                            "precision = 'fp64'\nvalidation_every = 4\nvalidation_samples = 2\n"
                            "validation_sigmas = [0.5, 2.0]\nlog_every = 3\nsample_every = 4\n");
  ScratchRun::save(*run->network("tokenizer", "tokenizer"), run->of("tokenizer") / "weights.safetensors");
  const json summary = trained(*run);
  const auto network = run->network("dit", "model", at::kDouble);
  const Reference want = reference(*network, samples(), k);
  load_values(network->chain().parameters(), network->chain().leaves(), want.averages);
  const auto lines = run->metrics("dit");
  ASSERT_EQ(lines.size(), 2u) << "of steps 3 and 4";
  const json& got = lines[1].at("validation");
  double mean = 0;
  for (size_t i = 0; i < 2; ++i) {
    const double sigma = i == 0 ? 0.5 : 2;
    double sum = 0;
    for (const size_t n : {0, 1}) {
      const auto first =
          static_cast<int64_t>(std::stoull(sha256(std::to_string(n)).substr(0, 13), nullptr, 16));
      sum += loss_at(*network, samples()[n], sigma,
                     sample_noise(normalised(samples()[n]), kSeed, first, "validation.noise"), false)
                 .item<double>();
    }
    EXPECT_NEAR(got.at("loss")[i].get<double>() / (sum / 2), 1, 1e-10);
    mean += sum / 4;
  }
  EXPECT_NEAR(summary.at("validation_loss").get<double>() / mean, 1, 1e-10);
  EXPECT_EQ(summary.at("held_out"), 0);
  EXPECT_TRUE(fs::exists(run->of("dit") / "samples/step-000004.png"));
  // Looking changes nothing.
  const auto blind = training(k, "precision = 'fp64'\n");
  trained(*blind);
  EXPECT_EQ(worst(read_tensors(run->of("dit") / "weights.safetensors"),
                  read_tensors(blind->of("dit") / "weights.safetensors")),
            0);
}

TEST(Split, HoldsOutAShareThatDoesNotMove) {
  const auto of = [](int clips) {
    const auto run = std::make_unique<ScratchRun>();
    fs::create_directories(run->of("latents"));
    LatentCacheWriter cache(run->of("latents") / "latents.h5", "{}");
    for (int i = 0; i < clips; ++i)
      for (const char* window : {"@0", "@17"})
        cache.add("clip-" + std::to_string(i) + window,
                  {{"latent", at::zeros({1})}, {"text", at::zeros({1, 1})}});
    cache.commit();
    LatentFacts facts;
    facts.scale = {{0}, {1}, 1};
    std::ofstream(run->of("latents") / "latents.json") << facts.to_json().dump();
    const LatentData data(run->of("latents"));
    const Split parts = split(data, 0.2);
    EXPECT_EQ(parts.train.size() + parts.held_out.size(), 2u * static_cast<size_t>(clips));
    std::set<std::string> keys;
    for (const int64_t i : parts.held_out) keys.insert(data.key(i));
    EXPECT_EQ(split(data, 0).held_out.size(), 0u);
    return keys;
  };
  const auto few = of(100), many = of(200);
  EXPECT_NEAR(static_cast<double>(many.size()) / 400, 0.2, 0.06);
  std::set<std::string> old;
  for (const auto& key : many)
    if (std::stoi(key.substr(5)) < 100) old.insert(key);
  EXPECT_EQ(old, few);
  for (const auto& key : many) EXPECT_EQ(many.count(key.substr(0, key.find('@')) + "@17"), 1u) << key;
}

TEST(TrainJob, WritesACheckpointWhenItIsAskedTo) {
  Knobs k;
  k.steps = 3;
  const auto run = training(k, "checkpoint_every = 100\n");
  request_save();
  trained(*run);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run->of("dit") / "checkpoints"))
    names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("step-000001", "step-000003"));
  EXPECT_FALSE(take_save_request());
}

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
    const auto resumed = training(k, "checkpoint_every = 2\nkeep = 10\nasync_checkpoints = false\n");
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
      for (const char* key : {"step", "loss", "gradient_norm", "weight_norm", "loss_by_sigma"})
        EXPECT_EQ(a[i].at(key), b[i].at(key)) << i << key;
    const auto w = read_tensors(whole->of("dit") / "weights.safetensors"),
               r = read_tensors(resumed->of("dit") / "weights.safetensors");
    for (const auto& [name, t] : w) EXPECT_TRUE(at::equal(t, r.at(name))) << name;
  }
}

}  // namespace
}  // namespace kinora::core
