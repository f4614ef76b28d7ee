#include "plugins/jobs/training/discriminator.hpp"

#include <ATen/ATen.h>

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
  const at::Tensor r = promoted(of_reconstruction.detach()).norm(), g = promoted(of_adversarial.detach()).norm();
  return (r / (g + 1e-4)).clamp(0, most);
}

double from_step(double weight, int64_t step, int64_t start) { return step < start ? 0 : weight; }

at::Tensor kl_to_standard_normal(const at::Tensor& moments) {
  if (moments.dim() < 2 || moments.size(1) % 2)
    raise(KINORA_INVALID, "moments must be [B, 2 C, ...], mean and log variance; found {}",
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

}  // namespace kinora::core
