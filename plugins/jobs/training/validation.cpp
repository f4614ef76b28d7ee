#include "plugins/jobs/training/validation.hpp"

#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/loading/held_out.hpp"

namespace kinora::core {
namespace {

at::Tensor level(double sigma) { return at::full({1}, sigma, at::kDouble); }

}  // namespace

// For a blend (1 - s) x0 + s n, s is sigma / (1 + sigma) of x0 + sigma n.
std::vector<double> validation_levels(const LossInstance& loss, std::vector<double> given) {
  if (!loss.draws_noise()) return {0};
  const bool blend = loss.mix() == KINORA_MIX_RECTIFIED_FLOW;
  if (given.empty()) {
    for (const double sigma : {0.1, 0.5, 2.0}) given.push_back(blend ? sigma / (1 + sigma) : sigma);
    return given;
  }
  for (const double s : given)
    if (s < 0 || (blend && s > 1))
      raise(KINORA_ERROR_INVALID, "validation_sigmas: {} is not a noise level of this loss, which has {}", s,
            blend ? "0 to 1" : "0 and more");
  return given;
}

Validation::Validation(SampleStream& samples, const Objective& objective, Network& network,
                       const Parallelism& parallel, const TrainOptions& options, uint64_t seed)
    : samples_(samples),
      objective_(objective),
      network_(network),
      parallel_(parallel),
      given_(options, objective.loss(), seed),
      sigmas_(validation_levels(objective.loss(), options.validation_sigmas)),
      seed_(seed) {}

Validation::Sample Validation::sample(size_t i) const {
  const auto item = samples_.validation(i);
  const auto number = static_cast<int64_t>(hash_of(item.key));
  Sample out{
      number, objective_.batch({item}, at::zeros({1}, at::kBool)), {}, given_(number, 1, "validation")};
  if (objective_.noisy() && out.batch.count("latent"))
    out.noise = sample_noise(out.batch.at("latent"), seed_, number, "validation.noise");
  return out;
}

void Validation::begin() const {
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  pass.seed = seed_;
  pass.step = network_.chain().pass().step;  // of the training, whose precision may depend on it
  pass.steps = network_.chain().pass().steps;
  network_.chain().begin(pass);
}

nlohmann::json Validation::losses() const {
  const at::NoGradGuard off;
  const size_t n = size(), ranks = static_cast<size_t>(parallel_.data_size()),
               rank = static_cast<size_t>(parallel_.data_rank());
  std::vector<double> one(n * sigmas_.size());
  // Every rank does equally many forwards, since ranks that share a model's parameters meet in each.
  for (size_t turn = 0; turn * ranks < n; ++turn) {
    const size_t mine = turn * ranks + rank, i = mine % n;
    const Sample s = sample(i);
    for (size_t k = 0; k < sigmas_.size(); ++k) {
      begin();
      const double loss = objective_.losses(s.batch, level(sigmas_[k]), s.noise, s.given).item<double>();
      if (mine < n) one[k * n + i] = loss;
    }
  }
  one = parallel_.sum(one, /*of_stages=*/false);  // without a gradient every stage has the output
  std::vector<double> means;
  for (auto at = one.begin(); at != one.end(); at += static_cast<std::ptrdiff_t>(n))
    means.push_back(std::accumulate(at, at + static_cast<std::ptrdiff_t>(n), 0.0) / static_cast<double>(n));
  nlohmann::json out{{"validation_loss",
                      std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(means.size())}};
  if (objective_.noisy()) out["validation"] = {{"sigma", sigmas_}, {"loss", means}};
  return out;
}

}  // namespace kinora::core
