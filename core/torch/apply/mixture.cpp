#include "core/torch/apply/mixture.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kinora/aten.hpp"

namespace kinora::core {

namespace {

[[noreturn]] void invalid(const std::string& what) { throw Error(KINORA_ERROR_INVALID, what); }

at::Tensor as_double(const char* name, const at::Tensor& t) {
  if (!t.is_floating_point())
    invalid(std::string(name) + " must be of floating point, it is " + c10::toString(t.scalar_type()));
  return t.detach().to(at::kCPU, at::kDouble);
}

at::Tensor of_components(const char* name, const at::Tensor& t, int64_t k) {
  if (t.dim() != 1 || t.size(0) != k)
    invalid(std::string(name) + " must have the shape [" + std::to_string(k) +
            "], one number for each row of mean");
  const at::Tensor d = as_double(name, t);
  if (d.lt(0).any().item<bool>() || !d.isfinite().all().item<bool>())
    invalid(std::string(name) + " must be finite and not negative");
  return d;
}

}  // namespace

Mixture::Mixture(const at::Tensor& mean, const at::Tensor& std, const at::Tensor& weight) {
  if (mean.dim() != 2 || mean.size(0) == 0) invalid("mean must have the shape [K, D] with K > 0");
  mean_ = as_double("mean", mean);
  variance_ = of_components("std", std, mean.size(0)).square();
  const at::Tensor w = of_components("weight", weight, mean.size(0));
  if (w.sum().item<double>() <= 0) invalid("weight must have a sum above 0");
  log_weight_ = w.div(w.sum()).log();
}

void Mixture::require_rows(const char* name, const at::Tensor& t) const {
  if (t.dim() != 2 || t.size(1) != mean_.size(1))
    invalid(fmt::format("{} must have the shape [N, {}], as mean has; it has {}", name, mean_.size(1),
                        c10::str(t.sizes())));
}

at::Tensor Mixture::noise(const at::Tensor& given) const {
  require_rows("noise", given);
  return as_double("noise", given);
}

at::Tensor Mixture::denoise(const at::Tensor& x, const at::Tensor& sigma, uint32_t mix) {
  require_rows("x", x);
  ++calls_;
  const at::Tensor x_ND = x.to(at::kCPU, at::kDouble);
  const at::Tensor sigma_N1 = sigma.to(at::kCPU, at::kDouble).reshape({-1, 1});
  const at::Tensor noise_N1 = sigma_N1.square();
  const at::Tensor kept_N1 =
      mix == KINORA_MIX_RECTIFIED_FLOW ? 1 - sigma_N1 : at::ones_like(sigma_N1);  // x = kept x0 + sigma n
  const at::Tensor total_NK = noise_N1 + kept_N1.square() * variance_;
  // Distances are computed from differences: the expanded square loses half the digits where x is far from
  // every mean.
  const at::Tensor away_NKD = x_ND.unsqueeze(1) - kept_N1.unsqueeze(1) * mean_;
  const at::Tensor score_NK = log_weight_ - 0.5 * static_cast<double>(x.size(1)) * total_NK.log() -
                              0.5 * away_NKD.square().sum(-1) / total_NK;
  const at::Tensor r_NK = score_NK.softmax(-1);
  return (r_NK * variance_ / total_NK).sum(-1, true) * kept_N1 * x_ND +
         noise_N1 * at::matmul(r_NK / total_NK, mean_);
}

kinora_denoiser Mixture::abi(uint32_t mix) {
  mix_ = mix;
  return {sizeof(kinora_denoiser), 0, this,
          [](void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) {
            return guard([&] {
              auto& m = *static_cast<Mixture*>(self);
              const at::Tensor level = borrow<at::Tensor>(sigma);
              m.sigmas_.push_back(level.flatten()[0].item<double>());
              *out = give(m.denoise(borrow<at::Tensor>(x), level, m.mix_));
            });
          }};
}

}  // namespace kinora::core
