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
#include "core/run/identity.hpp"
#include "core/torch/context/noise.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/media/clips.hpp"
#include "core/torch/media/latents.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/training/validation.hpp"
#include "core/torch/weights/checkpoint.hpp"
#include "core/torch/weights/convert.hpp"
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

// A tensor that the optimizer changes, and its gradient after the backwards of a step.
struct Trained {
  std::string name;
  at::Tensor value;
  std::function<at::Tensor()> gradient;
};
std::vector<Trained> every_weight(Network& network) {
  std::vector<Trained> out;
  for (auto& l : network.chain().leaves())
    out.push_back({l.name, l.tensor.detach(), [&l] { return l.tensor.grad(); }});
  return out;
}

// place: after a step, where `trained` are not the network's own tensors.
Reference reference(
    Network& network, const std::vector<Sample>& samples, const Knobs& k, std::vector<Trained> trained = {},
    const std::function<void()>& place = [] {}) {
  if (trained.empty()) trained = every_weight(network);
  std::vector<at::Tensor> m, v, average;
  for (const auto& t : trained) {
    m.push_back(at::zeros_like(t.value));
    v.push_back(at::zeros_like(t.value));
    average.push_back(t.value.clone());
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
    std::vector<at::Tensor> gradients;
    for (const auto& one : trained) gradients.push_back(one.gradient());
    for (auto& leaf : network.chain().leaves()) leaf.tensor.mutable_grad().reset();
    for (const auto& g : gradients) squares += g.square().sum().item<double>();
    const double norm = std::sqrt(squares), rate = rate_of(k, step),
                 factor = k.clip > 0 ? std::min(1.0, k.clip / (norm + 1e-6)) : 1;
    const bool finite = std::isfinite(loss) && std::isfinite(norm);
    out.steps.push_back({loss, norm, rate, !finite, by_sample});
    if (!finite) continue;
    ++t;
    for (size_t i = 0; i < trained.size(); ++i) {
      at::Tensor w = trained[i].value;
      const at::Tensor g = gradients[i] * factor;
      if (w.dim() > 1) w.mul_(1 - rate * k.decay);
      m[i] = k.beta1 * m[i] + (1 - k.beta1) * g;
      v[i] = k.beta2 * v[i] + (1 - k.beta2) * g * g;
      const double td = static_cast<double>(t);
      w.sub_(rate * (m[i] / (1 - std::pow(k.beta1, td))) /
             ((v[i] / (1 - std::pow(k.beta2, td))).sqrt() + k.eps));
      const double keep = std::min(k.ema, td / (9 + td));  // (1 + n) / (10 + n) after n = t - 1 updates
      average[i] = keep * average[i] + (1 - keep) * w;
    }
    place();
  }
  for (size_t i = 0; i < trained.size(); ++i) {
    out.weights[trained[i].name] = trained[i].value;
    out.averages[trained[i].name] = average[i];
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
void expect_resumed_equals_uninterrupted(const std::string& more) {
  Knobs k;
  k.steps = 6;
  const auto whole = training(k, "checkpoint_every = 2\nkeep = 10\n" + more);
  const json summary = trained(*whole);
  for (const auto& [left, lines] : {std::pair<std::string, size_t>{"step-000002", 5}, {"step-000006", 6}}) {
    const auto resumed = training(k, "checkpoint_every = 2\nkeep = 10\nasync_checkpoints = false\n" + more);
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
TEST(TrainJob, ResumedEqualsUninterrupted) { expect_resumed_equals_uninterrupted(""); }

constexpr const char* kLora = "lora = 'rank=2 alpha=3 targets=linear_qkv,linear_fc1 rslora'\n";

TEST(LoraJob, ResumedEqualsUninterrupted) { expect_resumed_equals_uninterrupted(kLora); }

// W + s B A written out: of a plain model whose weights are that sum the gradients G give dA = s B^T G and
// dB = s G A^T.
TEST(LoraJob, EqualsALoopOverTheSumOfWeights) {
  const Knobs k;
  const auto run = training(k, "precision = 'fp64'\nadapter = 'FOLDER/begin'\n");
  const auto network = run->network("dit", "model", at::kDouble);
  LoraOptions lora;
  lora.rank = 2, lora.alpha = 3, lora.rslora = true;
  const double s = 3 / std::sqrt(2.0);
  std::map<std::string, Adapter::Pair> pairs;
  std::vector<Trained> trained_pairs;
  std::vector<std::function<void()>> placing;
  NamedTensors base;
  for (auto& leaf : network->chain().leaves()) {
    base[leaf.name] = leaf.tensor.detach().clone();
    const std::string module = module_of(leaf.name);
    if (!module.ends_with("linear_qkv") && !module.ends_with("cross_attention.linear_proj")) continue;
    const at::Tensor w = leaf.tensor.detach(), start = base[leaf.name],
                     a = at::randn({2, w.size(1)}, at::kDouble) / 4,
                     b = at::randn({w.size(0), 2}, at::kDouble) / 4;
    pairs[module] = {a.clone(), b.clone()};
    trained_pairs.push_back({lora_a(module), a, [&leaf, b, s] { return s * b.t().mm(leaf.tensor.grad()); }});
    trained_pairs.push_back({lora_b(module), b, [&leaf, a, s] { return s * leaf.tensor.grad().mm(a.t()); }});
    placing.push_back([w, start, a, b, s] { w.copy_(start + s * b.mm(a)); });
  }
  ASSERT_EQ(pairs.size(), 2u);
  write_adapter(run->folder() / "begin", lora, pairs);
  const auto place = [&] {
    for (const auto& f : placing) f();
  };
  place();
  trained(*run);
  const Reference want = reference(*network, samples(), k, trained_pairs, place);
  expect_steps(*run, want, 1e-10);
  const Checkpoint last = load_checkpoint(*latest_checkpoint(run->of("dit") / "checkpoints"));
  EXPECT_LT(worst(last.weights, want.weights), 1e-10) << "the adapter and nothing else";
  EXPECT_LT(worst(last.ema.at("0.6"), want.averages), 1e-10);
  const Adapter made = read_adapter(run->of("dit") / "adapter");
  NamedTensors halves, merged = base;
  for (const auto& [module, pair] : made.modules) {
    halves[lora_a(module)] = pair.a, halves[lora_b(module)] = pair.b;
    merged[module + ".weight"] =
        base[module + ".weight"] + s * want.averages.at(lora_b(module)).mm(want.averages.at(lora_a(module)));
  }
  EXPECT_LT(worst(halves, want.averages), 1e-10);
  EXPECT_EQ(made.options.scale(), lora.scale());
  EXPECT_LT(worst(read_tensors(run->of("dit") / "weights.safetensors"), merged), 1e-10);
}

TEST(LoraJob, LeavesWhatConvertMergesIntoTheSameWeights) {
  const auto run = training(Knobs(), kLora);
  trained(*run);
  const auto folder = run->folder();
  convert_weights(nullptr, {{"in", (folder / "start.safetensors").string()},
                            {"out", (folder / "merged.safetensors").string()},
                            {"merge", (run->of("dit") / "adapter").string()}});
  const auto start = read_tensors(folder / "start.safetensors"),
             merged = read_tensors(folder / "merged.safetensors"),
             left = read_tensors(run->of("dit") / "weights.safetensors");
  ASSERT_EQ(left.size(), start.size());
  size_t changed = 0;
  for (const auto& [name, t] : start) {
    EXPECT_TRUE(at::equal(left.at(name), merged.at(name))) << name;
    changed += !at::equal(left.at(name), t);
  }
  EXPECT_EQ(changed, 2u) << "linear_qkv and linear_fc1 of one layer";
}

TEST(LoraJob, RefusesWhatNamesNoAdapter) {
  const auto said = [](const std::string& lines) { return failure(*training(Knobs(), lines)); };
  EXPECT_THAT(said("lora = 'rank=2 targets=linear_porj'\n"), HasSubstr("did you mean 'linear_proj'?"));
  EXPECT_THAT(said(std::string(kLora) + "adapter = 'x'\n"), HasSubstr("lora and adapter are both given"));
  EXPECT_THAT(said("lora = '/'\n"), HasSubstr("to go on with an adapter: adapter = '/'"));
  const ScratchRun bare(std::map<std::string, std::string>{{"dit", kLora}});
  write_latents(bare.of("latents"), samples());
  EXPECT_THAT(failure(bare), HasSubstr("an adapter is trained on a model's weights"));
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
  const std::string before = job_digest(file, *dit);
  dit->options["device"] = "cuda:1";
  dit->options["prefetch"] = false;
  EXPECT_EQ(job_digest(file, *dit), before);
  dit->options["lora"] = "rank=2 targets=linear_qkv";
  EXPECT_NE(job_digest(file, *dit), before);
}

// Two operations a multiplication with its addition; a backward is two forwards, without LoRA's frozen one.
TEST(TrainJob, LogsTheModelsOperations) {
  const double D = 24, R = 4, M = 4 * D, E = 12, n = 2 * 1 * 2, L = 1, patch = 2 * 2 * 2;
  const double layer =
      D * R + R * 9 * D + n * D * 3 * D + n * D * D + n * D * D + L * E * 2 * D + n * D * D + 2 * n * D * M;
  const double ends = n * patch * D + 2 * D * D + D * R + R * 2 * D + n * D * patch;
  const double linear = 2 * (layer + ends), attention = 4 * n * n * D + 4 * n * L * D;
  const auto run = training(Knobs(), "peak_flops = 1e9\n"), adapted = training(Knobs(), kLora);
  EXPECT_EQ(trained(*run).at("flops_per_sample"), 3 * (linear + attention));
  EXPECT_EQ(trained(*adapted).at("flops_per_sample"), 2 * linear + 3 * attention);
  for (const json& line : run->metrics("dit")) {
    const double a_second = 3 * (linear + attention) * line.at("samples_per_second").get<double>();
    EXPECT_DOUBLE_EQ(line.at("flops_per_second").get<double>(), a_second);
    EXPECT_DOUBLE_EQ(line.at("mfu").get<double>(), a_second / 1e9);
  }
}

}  // namespace
}  // namespace kinora::core
