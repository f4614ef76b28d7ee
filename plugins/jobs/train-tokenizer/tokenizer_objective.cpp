#include "plugins/jobs/train-tokenizer/tokenizer_objective.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

at::Tensor promoted(const at::Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

}  // namespace

at::Tensor hinge_critic(const at::Tensor& real, const at::Tensor& fake) {
  return (at::relu(1 - promoted(real)).mean() + at::relu(1 + promoted(fake)).mean()) / 2;
}

at::Tensor hinge_generator(const at::Tensor& fake) { return -promoted(fake).mean(); }

at::Tensor adaptive_weight(const at::Tensor& of_reconstruction, const at::Tensor& of_adversarial,
                           double most) {
  const at::Tensor r = promoted(of_reconstruction.detach()).norm(),
                   g = promoted(of_adversarial.detach()).norm();
  return (r / (g + 1e-4)).clamp(0, most);
}

// KL(N(m, v) || N(0, 1)) = (m^2 + v - 1 - ln v) / 2, summed over a sample's numbers; ln v is kept in [-30,
// 20] as in latent diffusion's code, so that exp() stays finite.
at::Tensor kl_to_standard_normal(const at::Tensor& moments) {
  if (moments.dim() < 2 || moments.size(1) % 2)
    raise(KINORA_ERROR_INVALID, "moments must be [B, 2 C, ...], mean and log variance; found {}",
          c10::str(moments.sizes()));
  const auto parts = promoted(moments).chunk(2, 1);
  const at::Tensor logvar = parts[1].clamp(-30, 20);
  return ((parts[0].square() + logvar.exp() - 1 - logvar) / 2).flatten(1).sum(1);
}

at::Tensor l1_per_sample(const at::Tensor& a, const at::Tensor& b) {
  return (promoted(a) - promoted(b)).abs().flatten(1).mean(1);
}
at::Tensor mse_per_sample(const at::Tensor& a, const at::Tensor& b) {
  return (promoted(a) - promoted(b)).square().flatten(1).mean(1);
}

TokenizerObjective::TokenizerObjective(const JobView& context, Tokenizer& tokenizer,
                                       const TrainTokenizerOptions& o)
    : id_(context.spec().component("tokenizer")->id),
      network_(tokenizer),
      options_(o),
      seed_(static_cast<uint64_t>(context.run().seed)),
      discrete_(tokenizer.info().discrete != 0) {
  if (discrete_ && o.kl > 0)
    raise(KINORA_ERROR_INVALID, "kl = {}: {} makes codes, which have no distribution to compare; set kl = 0",
          o.kl, id_);
  const auto* slot = context.spec().component("perceptual");
  if (!slot) return;
  perceptual_.emplace(context.open(*slot), slot->options);
  const auto& in = perceptual_->spec().inputs;
  const auto has = [&](const char* name) {
    return std::any_of(in.begin(), in.end(), [&](const TensorSpec& t) { return t.name == name; });
  };
  if (in.size() != 2 || !has("prediction") || !has("target"))
    raise(KINORA_ERROR_INVALID,
          "perceptual = '{}' does not compare two videos; give a loss of 'prediction' and "
          "'target' alone, such as lpips",
          slot->id);
}

at::Tensor TokenizerObjective::latent(const at::Tensor& video, int64_t first, at::Tensor& divergence) {
  at::Tensor posterior;
  const at::Tensor encoded = network_.encode(video, &posterior);
  if (discrete_ && !posterior.defined())
    raise(KINORA_ERROR_UNSUPPORTED, "{} returns codes without their vectors, and codes have no gradient",
          id_);
  if (discrete_) return posterior;
  if (options_.kl == 0) return encoded;
  if (!posterior.defined() || posterior.size(1) != 2 * encoded.size(1))
    raise(KINORA_ERROR_INVALID, "kl requires the moments of latents, but {} has none; set kl = 0", id_);
  divergence = kl_to_standard_normal(posterior);
  const auto moments = posterior.chunk(2, 1);
  // z = m + exp(ln v / 2) n (arXiv 1312.6114, section 2.4). n depends on the sample's number, never on ranks
  // or microbatches.
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
  // share: these samples' part of the step's batch, so that the sum over microbatches and ranks is the mean
  // over the batch.
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

std::optional<double> TokenizerObjective::perceptual(const at::Tensor& made, const at::Tensor& video) const {
  if (!perceptual_) return std::nullopt;
  return distance(made, video).mean().item<double>();
}

}  // namespace kinora::core
