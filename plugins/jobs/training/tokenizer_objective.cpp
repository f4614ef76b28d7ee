#include "plugins/jobs/training/tokenizer_objective.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/discriminator.hpp"
#include "plugins/jobs/training/perceptual.hpp"

namespace kinora::core {

TokenizerObjective::TokenizerObjective(const JobView& context, Network& tokenizer,
                                       const TrainTokenizerOptions& o)
    : id_(context.spec().component("tokenizer")->id),
      network_(tokenizer),
      options_(o),
      seed_(static_cast<uint64_t>(context.run().seed)),
      discrete_(tokenizer.info().discrete != 0) {
  if (discrete_ && o.kl > 0)
    raise(KINORA_INVALID, "kl = {}: {} makes codes, which have no distribution to compare; set kl = 0",
          o.kl, id_);
  const auto* slot = context.spec().component("perceptual");
  if (!slot) return;
  perceptual_.emplace(context.open(*slot), slot->options);
  const auto& in = perceptual_->spec().inputs;
  const auto has = [&](const char* name) {
    return std::any_of(in.begin(), in.end(), [&](const TensorSpec& t) { return t.name == name; });
  };
  if (in.size() != 2 || !has("prediction") || !has("target"))
    raise(KINORA_INVALID,
          "perceptual = '{}' does not compare two videos; give a loss of 'prediction' and "
          "'target' alone, such as lpips",
          slot->id);
}

at::Tensor TokenizerObjective::latent(const at::Tensor& video, int64_t first, at::Tensor& divergence) {
  at::Tensor posterior;
  const at::Tensor encoded = network_.encode(video, &posterior);
  if (discrete_ && !posterior.defined())
    raise(KINORA_UNSUPPORTED, "{} returns codes without their vectors, and codes have no gradient", id_);
  if (discrete_) return posterior;
  if (options_.kl == 0) return encoded;
  if (!posterior.defined() || posterior.size(1) != 2 * encoded.size(1))
    raise(KINORA_INVALID, "kl requires the moments of latents, but {} has none; set kl = 0", id_);
  divergence = kl_to_standard_normal(posterior);
  const auto moments = posterior.chunk(2, 1);
  return moments[0] + (moments[1].clamp(-30, 20) / 2).exp() *
                          sample_noise(moments[0], seed_, first, "tokenizer.posterior");
}

at::Tensor TokenizerObjective::distance(const at::Tensor& made, const at::Tensor& video) const {
  return perceptual_->of_samples(perceptual_->evaluate({{"prediction", made}, {"target", video}}),
                                 video.size(0));
}

TokenizerObjective::Terms TokenizerObjective::operator()(const at::Tensor& video, int64_t first,
                                                         double share) {
  at::Tensor divergence;
  Terms out;
  out.made = network_.decode(latent(video, first, divergence));
  const auto term = [&](const char* name, const at::Tensor& per_sample, double weight, at::Tensor& to) {
    const at::Tensor mean = per_sample.mean() * share;
    out.figures[name] = mean.item<double>();
    to = to.defined() ? to + weight * mean : weight * mean;
  };
  term("l1", l1_per_sample(out.made, video), options_.l1, out.reconstruction);
  term("mse", mse_per_sample(out.made, video), options_.mse, out.reconstruction);
  if (perceptual_)
    term("perceptual", distance(out.made, video), options_.perceptual_weight, out.reconstruction);
  out.all = out.reconstruction;
  if (divergence.defined()) term("kl", divergence, options_.kl, out.all);
  return out;
}

at::Tensor TokenizerObjective::reconstruct(const at::Tensor& video) {
  return network_.decode(network_.encode(video)).clamp(-1, 1);
}

std::map<std::string, double> TokenizerObjective::quality(const at::Tensor& made, const at::Tensor& video) {
  constexpr int64_t kWindow = 11;  // of ssim
  std::map<std::string, double> out{{"psnr", psnr(made, video).mean().item<double>()}};
  if (std::min(video.size(3), video.size(4)) >= kWindow)
    out["ssim"] = ssim(made, video).mean().item<double>();
  if (perceptual_) out["perceptual"] = distance(made, video).mean().item<double>();
  return out;
}

}  // namespace kinora::core
