// The exact denoiser of a mixture of isotropic Gaussians. Samplers are measured on it, since every value is
// known in closed form.
//
// If x0 ~ sum_k w_k N(mu_k, s_k^2 I) and x = x0 + sigma n, the minimiser of EDM's denoising error (Karras et
// al. 2022, arXiv 2206.00364, equation 2) is the posterior mean
//   D(x; sigma) = sum_k r_k(x) (s_k^2 x + sigma^2 mu_k) / (s_k^2 + sigma^2),   r_k(x) ~ w_k N(x; mu_k, (s_k^2
//   + sigma^2) I)
// With x = (1 - s) x0 + s n the same holds with means (1 - s) mu_k and deviations (1 - s) s_k, also for pure
// noise, s = 1.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/noise.h"
#include "kinora/abi/sampler.h"

namespace kinora::core {

class Mixture {
 public:
  // mean [K, D], std [K] >= 0, weight [K] >= 0 with a positive sum; any floating dtype, stored as float64 on
  // the CPU. Throws Error(KINORA_ERROR_INVALID) that names the tensor.
  Mixture(const at::Tensor& mean, const at::Tensor& std, const at::Tensor& weight);

  // x [N, D], x0 and n mixed as KINORA_MIX_* defines; sigma [N] -> x0 [N, D], float64. One call, whatever N.
  at::Tensor denoise(const at::Tensor& x, const at::Tensor& sigma,
                     uint32_t mix = KINORA_MIX_VARIANCE_EXPLODING);
  // Converts noise [N, D] of any floating dtype to float64. Throws Error(KINORA_ERROR_INVALID) for any other
  // dtype or shape.
  at::Tensor noise(const at::Tensor& given) const;

  // For kinora_sampler.sample of a sampler with this KINORA_MIX_*; valid as long as the mixture is neither
  // moved nor destroyed.
  kinora_denoiser abi(uint32_t mix = KINORA_MIX_VARIANCE_EXPLODING);

  int64_t calls() const { return calls_; }
  // Noise level of the first row in each call, in the sampler's unit.
  const std::vector<double>& sigmas() const { return sigmas_; }

 private:
  void require_rows(const char* name, const at::Tensor& t) const;
  uint32_t mix_ = KINORA_MIX_VARIANCE_EXPLODING;
  int64_t calls_ = 0;
  at::Tensor mean_, variance_, log_weight_;
  std::vector<double> sigmas_;
};

}  // namespace kinora::core
