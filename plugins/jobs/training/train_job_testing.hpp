// Computes what a training job must compute, number by number: from latents made by hand, in a float64 loop
// that shares no code with Trainer, optimizer/adamw, Ema or loss/edm.
#pragma once
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::by_hand {

namespace fs = std::filesystem;
using test::ScratchRun;
using testing::HasSubstr;

constexpr double kSigmaData = 0.5;

struct Sample {
  at::Tensor latent, text;  // as cached
};

// Multiples of 1/64, and scales that are powers of two: normalising them is exact in float32.
inline std::vector<Sample> samples() {
  at::manual_seed(7);
  std::vector<Sample> out;
  for (const int64_t tokens : {1, 3, 2})
    out.push_back({(at::randn({2, 2, 2, 4}) * 64).round() / 64, at::randn({tokens, 12})});
  return out;
}

inline void write_latents(const fs::path& folder, const std::vector<Sample>& samples) {
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

// Used by the reference only.
struct Knobs {
  int64_t steps = 4, batch = 4, warmup = 2;
  double learning_rate = 0.02, decay = 0.1, beta1 = 0.8, beta2 = 0.9, eps = 1e-3, clip = 0.05, ema = 0.6,
         dropout = 0.4;
  std::string toml() const {
    return fmt::format(
        "steps = {}\nbatch = {}\nwarmup = {}\nlearning_rate = {}\nweight_decay = {}\n"
        "optimizer = {{ use = 'adamw', beta1 = {}, beta2 = {}, eps = {} }}\n"
        "clip_norm = {}\ntext_dropout = {}\n",
        steps, batch, warmup, learning_rate, decay, beta1, beta2, eps, clip, dropout);
  }
};

struct Step {
  double loss, norm, rate;
  bool skipped;
  std::vector<std::pair<double, double>> by_sample;  // noise level, loss
};

// Karras et al. 2022: the weighted squared error of D(x; sigma) at a log-normal sigma, for global sample n.
inline double sigma_of(int64_t n) {
  return at::special_ndtri(sample_uniform({1}, kSeed, n, "train.sigma")).exp().item<double>();
}
inline at::Tensor loss_at(Model& network, const Sample& s, double sigma, const at::Tensor& noise, bool drop);
inline at::Tensor normalised(const Sample& s) {
  const auto by_channel = [](double a, double b) {
    return at::tensor({a, b}, at::kDouble).view({2, 1, 1, 1});
  };
  return ((s.latent.to(at::kDouble) - by_channel(0.25, -0.5)) / by_channel(2, 0.5) * kSigmaData).unsqueeze(0);
}
inline at::Tensor loss_of(Model& network, const Sample& s, int64_t n, double dropout) {
  const bool drop = sample_uniform({1}, kSeed, n, "train.text-dropout").item<double>() < dropout;
  return loss_at(network, s, sigma_of(n), sample_noise(normalised(s), kSeed, n, "train.noise"), drop);
}
inline at::Tensor loss_at(Model& network, const Sample& s, double sigma, const at::Tensor& noise, bool drop) {
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

inline double rate_of(const Knobs& k, int64_t step) {
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
inline std::vector<Trained> every_weight(Model& network) {
  std::vector<Trained> out;
  for (auto& l : network.chain().leaves())
    out.push_back({l.name, l.tensor.detach(), [&l] { return l.tensor.grad(); }});
  return out;
}

// place: called after a step, for `trained` tensors that are not the network's own.
inline Reference reference(
    Model& network, const std::vector<Sample>& samples, const Knobs& k, std::vector<Trained> trained = {},
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

inline double worst(const NamedTensors& got, const NamedTensors& want) {
  EXPECT_EQ(got.size(), want.size());
  double out = 0;
  for (const auto& [name, t] : want)
    out = test::worse(out, ((got.at(name).to(at::kDouble) - t).abs().max() / t.abs().max()).item<double>());
  return out;
}

// A run whose dit starts from start.safetensors, random numbers.
inline std::unique_ptr<ScratchRun> training(const Knobs& k, const std::string& more = "",
                                            const std::vector<Sample>& data = samples(),
                                            const std::string& ema = "") {
  auto run = std::make_unique<ScratchRun>(std::map<std::string, std::string>{
      {"dit", k.toml() + "ema = " + (ema.empty() ? fmt::format("{}", k.ema) : ema) + "\n" +
                  "weights = 'FOLDER/start.safetensors'\n" + more}});
  EXPECT_EQ(run->problems(), "");
  write_latents(run->of("latents"), data);
  ScratchRun::save(*run->model("dit"), run->folder() / "start.safetensors");
  return run;
}

inline json trained(const ScratchRun& run) {
  JobContext context = run.context("dit");
  test::run_job(context);
  return context.summary;
}

inline std::string failure(const ScratchRun& run) {
  return test::refusal([&] { trained(run); });
}

// Mean loss and number of samples of the steps up to `last`, each with 0.99 times the weight of the next, in
// half decades of sigma from 0.01 to 100.
inline void expect_by_sigma(const json& got, const Reference& want, size_t last, double bound) {
  for (int b = 0; b < 8; ++b) {
    double sum = 0, count = 0, weight = 1;
    for (size_t i = last + 1; i-- > 0;) {
      if (want.steps[i].skipped) continue;
      for (const auto& [sigma, loss] : want.steps[i].by_sample)
        if ((b == 0 || sigma >= std::pow(10, b / 2.0 - 2)) && (b == 7 || sigma < std::pow(10, b / 2.0 - 1.5)))
          sum += weight * loss, count += weight;
      weight *= 0.99;
    }
    EXPECT_NEAR(got.at("count")[static_cast<size_t>(b)].get<double>(), count, 1e-9) << b;
    const json& mean = got.at("mean")[static_cast<size_t>(b)];
    if (count == 0)
      EXPECT_TRUE(mean.is_null());
    else
      EXPECT_NEAR(mean.get<double>() / (sum / count), 1, bound) << b;
  }
}

inline void expect_steps(const ScratchRun& run, const Reference& want, double bound) {
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

constexpr const char* kLora = "lora = 'rank=2 alpha=3 targets=linear_qkv,linear_fc1 rslora'\n";

}  // namespace kinora::core::by_hand
