// kind = "train" on codes: losses, norms and weights of every step against a loop in float64 that shares no
// code with Trainer, optimizer/adamw or loss/next-token.
#include <cmath>
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/run_file.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using test::ScratchRun;
constexpr int64_t kTokenSteps = 4, kTokenBatch = 4;
constexpr double kRate = 0.02, kDecay = 0.1, kBeta1 = 0.8, kBeta2 = 0.9, kEps = 1e-3, kDropout = 0.4,
                 kZ = 0.01;

struct Coded {
  at::Tensor codes, text;  // int32 [t, h, w] as a tokenizer returns them, [L, 12]
};

std::vector<Coded> coded_samples() {
  at::manual_seed(7);
  std::vector<Coded> out;
  for (const int64_t tokens : {1, 3, 2})
    out.push_back({at::randint(9, {3, 2, 2}, at::kInt), at::randn({tokens, 12})});
  return out;
}

void write_codes(const std::filesystem::path& folder, const std::vector<Coded>& samples) {
  std::filesystem::create_directories(folder);
  LatentCacheWriter cache(folder / "latents.h5", "{}");
  for (size_t i = 0; i < samples.size(); ++i)
    cache.add(std::to_string(i), {{"codes", samples[i].codes}, {"text", samples[i].text}});
  cache.commit();
  LatentFacts facts;
  facts.shape = {3, 2, 2};
  facts.text_size = 12;
  std::ofstream(folder / "latents.json") << facts.to_json().dump();
}

// Mean over the codes of -ln p(code | codes before it, text) and z (ln sum of exponentials)^2.
at::Tensor code_loss(Model& model, const Coded& s, bool without_text) {
  const at::Tensor text = s.text.to(at::kDouble).unsqueeze(0) * (without_text ? 0.0 : 1.0);
  const at::Tensor logits = model.forward({{"codes", s.codes.unsqueeze(0)}, {"text", text}}).at(0)[0];
  at::Tensor sum = at::zeros({}, at::kDouble);
  const at::Tensor codes = s.codes.flatten();
  for (int64_t i = 0; i < codes.numel(); ++i) {
    const at::Tensor z = logits[i].exp().sum().log();
    sum = sum + z - logits[i][codes[i].item<int64_t>()] + kZ * z * z;
  }
  return sum / static_cast<double>(codes.numel());
}

struct CodeReference {
  std::vector<double> losses, norms;
  NamedTensors weights;
};

// decay_all: also for lookup tables.
CodeReference code_reference(Model& model, const std::vector<Coded>& samples, bool decay_all) {
  auto& leaves = model.chain().leaves();
  std::vector<at::Tensor> m(leaves.size()), v(leaves.size());
  CodeReference out;
  for (int64_t step = 0; step < kTokenSteps; ++step) {
    double loss = 0, squares = 0;
    for (int64_t n = step * kTokenBatch; n < (step + 1) * kTokenBatch; ++n) {
      const auto which = static_cast<size_t>(shuffled(n, static_cast<int64_t>(samples.size()), kSeed));
      const bool drop = sample_uniform({1}, kSeed, n, "train.text-dropout").item<double>() < kDropout;
      const at::Tensor one = code_loss(model, samples[which], drop) / static_cast<double>(kTokenBatch);
      one.backward();
      loss += one.item<double>();
    }
    const double rate = kRate * 0.5 * (1 + std::cos(M_PI * static_cast<double>(step) / kTokenSteps));
    const double t = static_cast<double>(step + 1);
    for (size_t i = 0; i < leaves.size(); ++i) {
      at::Tensor w = leaves[i].tensor.detach();
      const at::Tensor g = leaves[i].tensor.grad().clone();
      leaves[i].tensor.mutable_grad().reset();
      squares += g.square().sum().item<double>();
      if (!m[i].defined()) m[i] = at::zeros_like(g), v[i] = at::zeros_like(g);
      const bool looked_up =
          leaves[i].name.ends_with("_embedding.weight") || leaves[i].name.ends_with("_embeddings.weight");
      if (w.dim() > 1 && (decay_all || !looked_up)) w.mul_(1 - rate * kDecay);
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      w.sub_(rate * (m[i] / (1 - std::pow(kBeta1, t))) / ((v[i] / (1 - std::pow(kBeta2, t))).sqrt() + kEps));
    }
    out.losses.push_back(loss);
    out.norms.push_back(std::sqrt(squares));
  }
  for (const auto& l : leaves) out.weights[l.name] = l.tensor.detach();
  return out;
}

class TrainOnCodes : public testing::TestWithParam<std::pair<std::string, double>> {};

TEST_P(TrainOnCodes, EqualsALoopInDouble) {
  const auto& [lines, bound] = GetParam();
  const ScratchRun run(
      {{"dit",
        fmt::format(R"(
model = {{ use = 'ar', vocab_size = 9, n_layers = 2, dim = 24, n_heads = 4, n_kv_heads = 2, head_dim = 6,)"
                    R"( ffn_hidden_size = 16, insert_cross_attn = true, context_dim = 12 }}
loss = {{ use = 'next-token', z_loss = {} }}
steps = {}
batch = {}
warmup = 0
learning_rate = {}
weight_decay = {}
optimizer = {{ use = 'adamw', beta1 = {}, beta2 = {}, eps = {} }}
text_dropout = {}
clip_norm = 0.0
ema = 0.0
weights = 'FOLDER/start.safetensors'
{})",
                    kZ, kTokenSteps, kTokenBatch, kRate, kDecay, kBeta1, kBeta2, kEps, kDropout, lines)}});
  ASSERT_EQ(run.problems(), "");
  write_codes(run.of("latents"), coded_samples());
  ScratchRun::save(*run.model("dit"), run.folder() / "start.safetensors");
  JobContext context = run.context("dit");
  test::run_job(context);
  const CodeReference want = code_reference(*run.model("dit", "model", at::kDouble), coded_samples(),
                                            lines.find("decay_all = true") != std::string::npos);
  double worst = 0;
  const auto compare = [&](double got, double wanted, const std::string& what) {
    EXPECT_NEAR(got / wanted, 1, bound) << what;
    worst = test::worse(worst, std::abs(got / wanted - 1));
  };
  const auto metrics = run.metrics("dit");
  ASSERT_EQ(metrics.size(), static_cast<size_t>(kTokenSteps));
  for (size_t i = 0; i < metrics.size(); ++i) {
    compare(metrics[i].at("loss"), want.losses[i], "loss " + std::to_string(i));
    compare(metrics[i].at("gradient_norm"), want.norms[i], "norm " + std::to_string(i));
  }
  const auto got = read_tensors(run.of("dit") / "weights.safetensors");
  ASSERT_EQ(got.size(), want.weights.size());
  for (const auto& [name, t] : want.weights) {
    const double apart = ((got.at(name).to(at::kDouble) - t).abs().max() / t.abs().max()).item<double>();
    EXPECT_LT(apart, bound) << name;
    worst = test::worse(worst, apart);
  }
  EXPECT_LT(want.losses.back(), want.losses.front()) << "codes that teach nothing would prove nothing";
  std::printf("          worst relative difference %.2g\n", worst);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TrainOnCodes,
    testing::Values(std::pair<std::string, double>{"precision = 'fp64'\n", 1e-10},
                    std::pair<std::string, double>{"precision = 'fp64'\naccumulate = 2\n", 1e-10},
                    std::pair<std::string, double>{"precision = 'fp64'\ndecay_all = true\n", 1e-10},
                    std::pair<std::string, double>{"", 1e-3}));

}  // namespace
}  // namespace kinora::core
